"""Tables of microbenchmarks for a terminal, with collectives as nccl-tests prints them.

nccl-tests has sizes in bytes, times in us and rates in GB/s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, product
from operator import itemgetter
from typing import Any

import numpy as np
from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import DATA, RATE, TIME, human
from validate.microbench.benchmarks import BENCHMARKS
from validate.microbench.run_file import RankPlace, RunFile

Row = Mapping[str, Any]

# The columns of nccl-tests.
_ONE_WAY = f"{'time':>9} {'algbw':>8} {'busbw':>8} {'#wrong':>6}"
_UNITS = f"{'(us)':>9} {'(GB/s)':>8} {'(GB/s)':>8} {'':>6}"
_WAYS = ("", "in_place_")  # prefixes of the columns of out of place and in place


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


def nccl_lines(run: RunFile) -> Iterator[str]:
    """Yield the ranks, then a table for each operation and algorithm."""
    yield (
        f"# dpsim validate microbench collectives by {run.backend}: "
        f"medians of {run.settings.iterations}, a barrier before each"
    )
    yield "#"
    yield "# Using devices"
    for place in run.ranks:
        yield _device(place)
    # Rows are in the order of measurement, in which an operation and algorithm are contiguous.
    tables = groupby(run.of("collectives"), key=itemgetter("operation", "algorithm"))
    for (operation, algorithm), rows in tables:
        yield from _table(operation, algorithm, list(rows))


def _device(place: RankPlace) -> str:
    number = place.device.partition(":")[2] or "0"
    return (
        f"#  Rank {place.rank:>2} Group  0 Pid {place.pid:>6} on {place.host:>10} "
        f"device {number:>2} [{place.device}] {place.device_name}"
    )


def _table(operation: str, algorithm: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    program = "alltoall" if operation == "all-to-all" else operation.replace("-", "_")
    yield "#"
    yield f"# {program}_perf: {algorithm}"
    # In a heading the comment's sign replaces the first blank.
    headings = _input("size", "count", "type", "redop", "root")[1:]
    units = _input("(B)", "(elements)", "", "", "")[1:]
    out_of_place, in_place = "out-of-place", "in-place"
    yield f"#{'':53}{out_of_place:>28} {in_place:>35}"
    yield f"#{headings} {_ONE_WAY} {_ONE_WAY}"
    yield f"#{units} {_UNITS} {_UNITS}"
    for row in rows:
        columns = [_input(row["bytes"], row["count"], row["type"], row["redop"], row["root"])]
        columns += [_way(row, way) for way in _WAYS]
        yield " ".join(columns)
    wrong = sum(_all_values(rows, "wrong"))
    verdict = "FAILED" if wrong else "OK"
    yield f"# Out of bounds values : {wrong} {verdict}"
    # nccl-tests takes the plain mean over all sizes and both ways, small messages included.
    busbw = _all_values(rows, "busbw_Bps")
    average = np.mean(busbw) / 1e9 if busbw else 0.0
    yield f"# Avg bus bandwidth    : {average:g}"


def _all_values(rows: Sequence[Row], column: str) -> list[Any]:
    """Return all values of a column, out of place and in place."""
    values = [row[way + column] for row in rows for way in _WAYS]
    return [value for value in values if value is not None]


def _input(size: object, count: object, type_: object, redop: object, root: object) -> str:
    return f"{size!s:>12} {count!s:>13} {type_!s:>9} {redop!s:>7} {root!s:>6}"


def _way(row: Row, prefix: str) -> str:
    seconds = row[prefix + "time_s"]
    if seconds is None:
        none = "N/A"
        return f"{none:>9} {none:>8} {none:>8} {none:>6}"
    time_us = seconds * 1e6
    # A clock too coarse to measure the time gives no rate.
    algbw = (row[prefix + "algbw_Bps"] or 0) / 1e9
    busbw = (row[prefix + "busbw_Bps"] or 0) / 1e9
    wrong = row[prefix + "wrong"]
    return f"{time_us:>9.2f} {algbw:>8.4f} {busbw:>8.4f} {wrong:>6}"
