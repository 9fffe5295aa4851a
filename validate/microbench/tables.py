"""Rows of microbenchmarks as tables for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import DATA, RATE, TIME, human
from validate.microbench.benchmarks import BENCHMARKS
from validate.microbench.nccl_table import nccl_lines
from validate.microbench.run_file import RunFile

Row = Mapping[str, Any]


def parts(run: RunFile) -> Iterator[Table | str]:
    """Yield the tables of all benchmarks that ran, and a line for each that did not."""
    for name in run.what:
        rows = run.of(name)
        if name == "collectives" and rows:
            yield "\n".join(nccl_lines(run))
        elif rows:
            yield f"{name}: {BENCHMARKS[name].description}"
            yield _layers(rows) if name == "layers" else _plain(rows)
    yield from (f"{name}: not run: {reason}" for name, reason in run.not_run.items())


def _plain(rows: Sequence[Row]) -> Table:
    """Return a table of every column that is not a list."""
    lists = ("times_s", "_shares")
    columns = [key for key in rows[0] if key != "what" and not key.endswith(lists)]
    # Units are with the numbers.
    headings = (column.removesuffix("_s").replace("_Bps", "") for column in columns)
    cells = ([_text(column, row[column]) for column in columns] for row in rows)
    return table("", (heading.replace("_", " ") for heading in headings), cells)


def _layers(rows: Sequence[Row]) -> Table:
    """Return a table of layers by batch size: forward and backward."""
    headings = [f"layer of {rows[0]['model']}"]
    layers: list[Sequence[float]] = []
    passes: list[float] = []
    for row, way in product(rows, ("forward", "backward")):
        headings.append(f"{way}, {row['batch_size']}")
        layers.append(row[f"{way}_s"])
        passes.append(row[f"{way}_pass_time_s"])

    # From a list per column to a line per layer.
    seconds = [*zip(rows[0]["layers"], *layers, strict=True), ("all", *passes)]
    cells = ((name, *(human(time, TIME, 3) for time in times)) for name, *times in seconds)
    return table("", (heading.replace("_", " ") for heading in headings), cells)


def _text(column: str, value: object) -> str:
    """Return a value in the unit given by the end of its column's name."""
    if isinstance(value, int) and column.endswith("bytes"):
        return human(value, DATA, 3)
    if not isinstance(value, float):
        return str(value)
    if column.endswith("_s") and "per_s" not in column:
        return human(value, TIME, 3)
    if column.endswith("_Bps"):
        return human(value, RATE, 3)
    return f"{value:.3g}"
