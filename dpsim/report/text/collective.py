"""Times of a collective over sizes, as text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from dpsim.base.doubt import CONFIDENCE, PredictionInterval
from dpsim.base.units import DATA, RATE, TIME, human, size

if TYPE_CHECKING:
    from dpsim.studies.collective import CollectiveRow


def collective_table(rows: Sequence[CollectiveRow]) -> Table:
    """Sizes in the columns of nccl-tests: size, time, algbw, busbw; and traffic.

    The model's error stands beside the time where it is known.
    """
    known = any(row.interval is not None for row in rows)
    errors = [f"{CONFIDENCE:.0%} within"] if known else []
    table = Table(show_edge=False)
    for heading in (
        *("size", "algorithm", "time", *errors, "algbw", "busbw"),
        *("sent, busiest", "sent, all"),
    ):
        table.add_column(heading, justify="left" if heading == "algorithm" else "right")
    for row in rows:
        table.add_row(
            size(row.bytes),
            # What `auto` chose at this size stands behind it.
            row.algorithm if row.used == row.algorithm else f"{row.algorithm}: {row.used}",
            human(row.time_s, TIME),
            *([_within(row.interval)] if known else []),
            human(row.algbw_Bps, RATE),
            human(row.busbw_Bps, RATE),
            human(row.bytes_sent_busiest, DATA),
            human(row.bytes_sent_total, DATA),
        )
    return table


def _within(interval: PredictionInterval | None) -> str:
    if interval is None:
        return ""
    return f"{human(interval.low, TIME, 3)} to {human(interval.high, TIME, 3)}"


def collective_notes(rows: Sequence[CollectiveRow]) -> list[str]:
    """What the models' errors extrapolate, each once."""
    known = (row.interval for row in rows if row.interval is not None)
    every = dict.fromkeys(each for interval in known for each in interval.extrapolated)
    return [f"extrapolated: {each}" for each in every]
