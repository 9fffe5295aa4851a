"""The times of a collective over sizes, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import DATA, RATE, TIME, human, size
from dpsim.report.text.model_error import WITHIN, extrapolation_notes, within_cell

if TYPE_CHECKING:
    from dpsim.studies.collective import CollectiveRow


def collective_table(rows: Sequence[CollectiveRow]) -> Table:
    """Return a table with the columns of nccl-tests: size, time, algbw, busbw; and traffic.

    The interval by the models' errors is beside the time if it is known.
    """
    known = any(row.interval is not None for row in rows)
    errors = [WITHIN] if known else []
    traffic = ("sent, busiest", "sent, all")
    headings = ("size", "algorithm", "time", *errors, "algbw", "busbw", *traffic)
    cells = (
        (
            size(row.bytes),
            # Followed by the choice of `auto` at this size.
            row.algorithm if row.used == row.algorithm else f"{row.algorithm}: {row.used}",
            human(row.time_s, TIME),
            *([within_cell(row.interval)] if known else []),
            human(row.algbw_Bps, RATE),
            human(row.busbw_Bps, RATE),
            human(row.bytes_sent_busiest, DATA),
            human(row.bytes_sent_total, DATA),
        )
        for row in rows
    )
    return table("", headings, cells, left=("algorithm",))


def collective_notes(rows: Sequence[CollectiveRow]) -> list[str]:
    """Return the corrections of times, and the models' extrapolations, each once."""
    told = dict.fromkeys(note for row in rows for note in nearest_notes(row.nearest_machines or ()))
    return [*told, *extrapolation_notes(row.interval for row in rows)]


def nearest_notes(nearest_machines: Sequence[str]) -> list[str]:
    """Return a line with the measured machines that corrected a time; empty without any."""
    return (
        [f"corrected by the nearest measured machines: {'; '.join(nearest_machines)}"]
        if nearest_machines
        else []
    )
