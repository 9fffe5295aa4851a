"""Data parallelism beside a model split by layers, as a table for a terminal."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import DATA, TIME, human
from dpsim.studies.layer_split import Arrangement

_HEADINGS = ("GPUs", "way", "micro-batches", "step", "samples/s", "idle", "sent", "fullest GPU")


def arrangements_table(title: str, found: Iterable[Arrangement]) -> Table:
    """Return a row for each arrangement; those on equally many GPUs are grouped."""
    made = table(title, _HEADINGS, (), left=("way",))
    for _, alike in groupby(found, lambda each: each.devices):
        for each in alike:
            memory = human(each.memory.held.total, DATA, 3)
            made.add_row(
                str(each.devices),
                each.way,
                str(each.micro_batches or ""),
                human(each.step_time_s, TIME, 4),
                f"{each.throughput_samples_per_s:,.1f}",
                f"{each.idle:.1%}",
                human(each.bytes_sent, DATA, 3),
                memory if each.memory.fits else f"{memory}, too much",
            )
        made.add_section()
    return made
