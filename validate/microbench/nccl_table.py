"""Rows of the collectives as the text that nccl-tests prints, for its readers.

Sizes in bytes, times in us, rates in GB/s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import numpy as np

from validate.microbench.run_file import RankPlace, RunFile

Row = Mapping[str, Any]

_ONE_WAY = f"{'time':>9} {'algbw':>8} {'busbw':>8} {'#wrong':>6}"
_UNITS = f"{'(us)':>9} {'(GB/s)':>8} {'(GB/s)':>8} {'':>6}"
_WAYS = ("", "in_place_")  # what the columns of out of place and in place begin with


def nccl_lines(run: RunFile) -> Iterator[str]:
    """The ranks, then a table for each operation and algorithm."""
    yield (
        f"# dpsim validate microbench collectives by {run.backend}: "
        f"medians of {run.settings.iterations}, a barrier before each"
    )
    yield "#"
    yield "# Using devices"
    for place in run.ranks:
        yield _device(place)
    tables = groupby(run.of("collectives"), key=lambda row: (row["operation"], row["algorithm"]))
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
    # In a heading the comment's sign takes the place of the first blank.
    headings = _input("size", "count", "type", "redop", "root")[1:]
    units = _input("(B)", "(elements)", "", "", "")[1:]
    yield f"#{'':53}{'out-of-place':>28} {'in-place':>35}"
    yield f"#{headings} {_ONE_WAY} {_ONE_WAY}"
    yield f"#{units} {_UNITS} {_UNITS}"
    for row in rows:
        given = _input(row["bytes"], row["count"], row["type"], row["redop"], row["root"])
        yield " ".join([given, *(_way(row, way) for way in _WAYS)])
    wrong = sum(_of_both_ways(rows, "wrong"))
    yield f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}"
    busbw = _of_both_ways(rows, "busbw_Bps")
    yield f"# Avg bus bandwidth    : {np.mean(busbw) / 1e9 if busbw else 0.0:g}"


def _of_both_ways(rows: Sequence[Row], column: str) -> list[Any]:
    """What there is of a column, out of place and in place."""
    values = [row[way + column] for row in rows for way in _WAYS]
    return [value for value in values if value is not None]


def _input(size: object, count: object, type_: object, redop: object, root: object) -> str:
    return f"{size!s:>12} {count!s:>13} {type_!s:>9} {redop!s:>7} {root!s:>6}"


def _way(row: Row, prefix: str) -> str:
    if row[prefix + "time_s"] is None:
        return f"{'N/A':>9} {'N/A':>8} {'N/A':>8} {'N/A':>6}"
    time_us = row[prefix + "time_s"] * 1e6
    algbw = (row[prefix + "algbw_Bps"] or 0) / 1e9
    busbw = (row[prefix + "busbw_Bps"] or 0) / 1e9
    return f"{time_us:>9.2f} {algbw:>8.4f} {busbw:>8.4f} {row[prefix + 'wrong']:>6}"
