"""Logged faults of servers: rates by kind, repairs, and relapses.

A repaired server often fails again, since the cause was not found. Faults then come in episodes: a
first fault, which hits any server at any time, and its relapses. If each fault has a relapse with
probability p, an episode has n faults with probability (1 - p) p**(n - 1), and the variance of the
servers' fault counts over their mean is (1 + p) / (1 - p), which gives p. Some faults, such as
those of a switch or a power supply, hit several servers at the same moment.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.base.files import csv_rows

_MOST_BYTES = 64 * 2**20
_RARE = 0.02  # of all faults: rarer kinds are counted together
_MOST_RELAPSE = 0.95  # the limit in FaultConfig
_LEAST_FAULTS = 10
_MOMENT = 1 / 1440  # days: faults within a minute of each other are not independent


@dataclass(frozen=True, slots=True)
class Logged:
    """A fault: days from the start of the log; ``repair`` is None if one end is unknown.

    If the start is unknown, the end is used for it, and ``is_dated`` is false.
    """

    node: str
    kind: str
    start: float
    end: float
    repair: float | None
    is_dated: bool = True


@dataclass(frozen=True, slots=True)
class FaultTrace:
    """Faults of ``servers`` servers observed for ``days`` days."""

    faults: Sequence[Logged]
    servers: int
    days: float

    def by_server(self) -> Mapping[str, Sequence[Logged]]:
        """Return the faults of each server that has any, in the order of their start."""
        found: dict[str, list[Logged]] = {}
        for fault in sorted(self.faults, key=lambda each: each.start):
            found.setdefault(fault.node, []).append(fault)
        return found

    def relapse(self) -> tuple[float, float]:
        """Return the chance that a repaired server fails again, and after how many days.

        See `relapse_chance`. That share of the faults, those soonest after a repair, are relapses.
        """
        counts = np.zeros(self.servers)
        own = list(self.by_server().values())
        counts[: len(own)] = [len(faults) for faults in own]
        chance = relapse_chance(counts)
        # If two faults overlap, the second follows at once.
        until_next = sorted(
            max(0.0, later.start - fault.end) for faults in own for fault, later in pairwise(faults)
        )
        relapses = until_next[: round(chance * len(self.faults))]
        return chance, float(np.mean(relapses)) if relapses else 0.0


def relapse_chance(counts: FloatArray) -> float:
    """Return the probability of a relapse, from the fault ``counts`` of servers."""
    if len(counts) < 2:
        return 0.0
    # Counts are Poisson sums of geometric numbers, with variance over mean (1 + p) / (1 - p).
    dispersion = float(counts.var(ddof=1) / counts.mean())
    return min(max(0.0, (dispersion - 1) / (dispersion + 1)), _MOST_RELAPSE)


def together(faults: Sequence[Logged]) -> float:
    """Return the mean number of servers that fail at once."""
    starts = sorted(fault.start for fault in faults if fault.is_dated)
    moments = 1 + sum(later - earlier > _MOMENT for earlier, later in pairwise(starts))
    return max(1.0, len(starts) / moments)


def read_faults(path: str, servers: int | None, days: float | None) -> list[dict[str, Any]]:
    """Return the fields of a trace's faults by kind, the most frequent first."""
    trace = read_trace(path, servers, days)
    chance, after = trace.relapse()
    by_kind: dict[str, list[Logged]] = {}
    for fault in trace.faults:
        by_kind.setdefault(fault.kind, []).append(fault)
    rare = [kind for kind, found in by_kind.items() if len(found) < _RARE * len(trace.faults)]
    if len(rare) > 1:
        by_kind["of a rare kind"] = [each for kind in rare for each in by_kind.pop(kind)]
    ordered = sorted(by_kind.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    server_days = trace.servers * trace.days
    return [_fault_fields(kind, found, server_days, chance, after) for kind, found in ordered]


def _fault_fields(
    kind: str, found: Sequence[Logged], server_days: float, relapse: float, after: float
) -> dict[str, Any]:
    """Return the FaultConfig fields of one kind of faults; ``after`` in days."""
    repairs = [each.repair for each in found if each.repair]
    mean = spread = 0.0
    if repairs:
        mean = float(np.mean(repairs))
        # A lognormal's mean over its median is exp(spread**2 / 2).
        spread = min(math.sqrt(2 * math.log(max(1.0, mean / float(np.median(repairs))))), 3.0)
    return {
        "name": kind,
        "mtbf": f"{24 * server_days / len(found):.6g} h",
        "per": "node",
        "together": together(found),
        "repair_time": f"{24 * mean:.6g} h",
        "repair_spread": spread,
        "relapse": relapse,
        "relapse_time": f"{24 * after:.6g} h",
    }


def read_trace(path: str, servers: int | None = None, days: float | None = None) -> FaultTrace:
    """Read the faults in a CSV file. Raises DpsimError, which names the file and the rule."""
    names, rows = csv_rows(path, _MOST_BYTES)
    if not {"node", "start_day", "end_day"} <= set(names):
        raise DpsimError(f"{path}: must have the columns node, start_day and end_day")
    faults = [_logged(path, line, row) for line, row in enumerate(rows, 2)]
    nodes = len({fault.node for fault in faults})
    if len(faults) < _LEAST_FAULTS:
        raise DpsimError(
            f"{path}: must have at least {_LEAST_FAULTS} faults, but got {len(faults)}"
        )
    if servers is not None and servers < nodes:
        raise DpsimError(f"{path}: servers must be at least {nodes}, as in it, but got {servers}")
    last = max(fault.end for fault in faults)
    if days is not None and days < last:
        raise DpsimError(f"{path}: days must be at least {last:g}, its last, but got {days:g}")
    return FaultTrace(faults, servers or nodes, days or last)


def _logged(path: str, line: int, row: Mapping[str, str | None]) -> Logged:
    start = _day(path, line, row, "start_day")
    end = _day(path, line, row, "end_day")
    if start is None and end is None:
        raise DpsimError(f"{path}:{line}: must have start_day or end_day")
    duration = None if start is None or end is None else end - start
    if duration is not None and duration < 0:
        raise DpsimError(f"{path}:{line}: end_day must be at least start_day, but got {end:g}")
    dated = cast("float", end if start is None else start)
    return Logged(
        row["node"] or "",
        (row.get("kind") or "fault").strip() or "fault",
        dated,
        dated if end is None else end,
        duration,
        start is not None,
    )


def _day(path: str, line: int, row: Mapping[str, str | None], name: str) -> float | None:
    text = (row[name] or "").strip()
    if not text:
        return None
    try:
        day = float(text)
    except ValueError:
        day = math.nan
    if not 0 <= day < math.inf:
        raise DpsimError(f"{path}:{line}: {name}: must be a day from 0 on, but got {text!r}")
    return day
