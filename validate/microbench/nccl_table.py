"""Rows of the collectives as the text that nccl-tests prints, for its readers.

Sizes in bytes, times in us, rates in GB/s.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

import numpy as np

from validate.microbench.run_file import RunFile

Row = Mapping[str, Any]

_ONE_WAY = f"{'time':>9} {'algbw':>8} {'busbw':>8} {'#wrong':>6}"
_UNITS = f"{'(us)':>9} {'(GB/s)':>8} {'(GB/s)':>8} {'':>6}"
_INPUT = ("size", "count", "type", "redop", "root")


def nccl_lines(run: RunFile) -> Iterator[str]:
    """The ranks, then a table for each operation and algorithm."""
    yield f"# dpsim validate microbench collectives by {run.backend}: medians of {run.settings.iterations}, a barrier before each"
    yield "#"
    yield "# Using devices"
    for place in run.ranks:
        device = f"device {place.device.partition(':')[2] or '0':>2} [{place.device}] {place.device_name}"
        yield f"#  Rank {place.rank:>2} Group  0 Pid {place.pid:>6} on {place.host:>10} {device}"
    for (operation, algorithm), rows in groupby(
        run.of("collectives"), key=lambda row: (row["operation"], row["algorithm"])
    ):
        yield from _table(operation, algorithm, list(rows))


def _table(operation: str, algorithm: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    program = "alltoall" if operation == "all-to-all" else operation.replace("-", "_")
    yield "#"
    yield f"# {program}_perf: {algorithm}"
    yield f"#{'':53}{'out-of-place':>28} {'in-place':>35}"
    yield "#" + _input(*_INPUT)[1:] + f" {_ONE_WAY} {_ONE_WAY}"
    yield "#" + _input("(B)", "(elements)", "", "", "")[1:] + f" {_UNITS} {_UNITS}"
    for row in rows:
        yield (
            _input(row["bytes"], row["count"], row["type"], row["redop"], row["root"])
            + f" {_way(row, '')} {_way(row, 'in_place_')}"
        )
    wrong = sum(row[prefix + "wrong"] or 0 for row in rows for prefix in ("", "in_place_"))
    yield f"# Out of bounds values : {wrong} {'FAILED' if wrong else 'OK'}"
    busbw = [
        row[prefix + "busbw_Bps"]
        for row in rows
        for prefix in ("", "in_place_")
        if row[prefix + "busbw_Bps"] is not None
    ]
    yield f"# Avg bus bandwidth    : {np.mean(busbw) / 1e9 if busbw else 0.0:g}"


def _input(size: object, count: object, type_: object, redop: object, root: object) -> str:
    return f"{size!s:>12} {count!s:>13} {type_!s:>9} {redop!s:>7} {root!s:>6}"


def _way(row: Row, prefix: str) -> str:
    if row[prefix + "time_s"] is None:
        return f"{'N/A':>9} {'N/A':>8} {'N/A':>8} {'N/A':>6}"
    time, algbw, busbw = (
        row[prefix + "time_s"] * 1e6,
        row[prefix + "algbw_Bps"] or 0,
        row[prefix + "busbw_Bps"] or 0,
    )
    return f"{time:>9.2f} {algbw / 1e9:>8.4f} {busbw / 1e9:>8.4f} {row[prefix + 'wrong']:>6}"
