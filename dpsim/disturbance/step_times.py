"""Measured step times of one or several jobs, from a CSV file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.base.files import csv_rows
from dpsim.disturbance.jitter import Factors

_UNITS = {"step_ms": 1e-3, "step_time_ms": 1e-3, "step_s": 1.0, "step_time_s": 1.0}
_JOBS = ("job", "case_id")
_WITHOUT = "mean_without_stragglers_s"
_MOST_BYTES = 256 * 2**20
STEPS_TO_FIT = 20  # fewer steps do not separate the parts


@dataclass(frozen=True, slots=True)
class TimedJob:
    """Step times in seconds of one job, shape (steps, ranks), with each rank's number and node.

    ``slow_down``: the mean step over the mean step without stragglers. Where the file does not
    state the latter, it is a step in which all ranks take the median rank's time; None where ranks
    were not timed separately.
    """

    times: Factors
    ranks: list[int]
    nodes: list[int]
    slow_down: float | None

    def to_json(self) -> dict[str, Any]:
        """Return plain values, without the times themselves."""
        return {
            "steps": len(self.times),
            "median_s": float(np.median(self.times)),
            "slow_down": self.slow_down,
        }


def read_jobs(path: Path, job: str | None = None) -> dict[str, TimedJob]:
    """Read the jobs of a CSV file by name, or ``job`` alone; a file without names has one job, "".

    The file has one of the columns step_ms, step_time_ms, step_s or step_time_s; ``rank`` (and
    optionally ``node``) where ranks were timed separately; ``job`` or ``case_id`` where there are
    several jobs; and optionally ``mean_without_stragglers_s``. Raises DpsimError.
    """
    names, table = csv_rows(path, _MOST_BYTES)
    column = next((name for name in names if name in _UNITS), None)
    if column is None:
        raise DpsimError(f"{path}: must have one of the columns {', '.join(_UNITS)}")
    named_by = next((name for name in _JOBS if name in names), "")
    rows: dict[str, list[tuple[int, dict[str, str]]]] = {}
    for line, row in enumerate(table, 2):
        rows.setdefault(row.get(named_by) or "", []).append((line, row))
    if not rows:
        raise DpsimError(f"{path}: must have at least {STEPS_TO_FIT} steps, but got none")
    if job is not None and job not in rows:
        raise DpsimError(f"{path}: --job must be one of {', '.join(rows)}, but got {job!r}")
    chosen = rows if job is None else {job: rows[job]}
    return {name: _timed(path, name, column, found) for name, found in chosen.items()}


def timed_apart(times: Factors, ranks: Sequence[int], nodes: Sequence[int]) -> TimedJob:
    """Return a job with the times of each rank in each step, shape (steps, ranks)."""
    # A step ends with its slowest rank.
    slow_down = float(times.max(axis=1).mean() / np.median(times, axis=1).mean())
    return TimedJob(times, list(ranks), list(nodes), slow_down if len(ranks) > 1 else None)


def pooled(path: Path, jobs: Sequence[TimedJob]) -> tuple[Factors, list[int]]:
    """Return one job's times in s, or several jobs' times over their medians, and ranks' nodes.

    Dividing by the median removes the jobs' different speeds. Raises DpsimError where ranks differ.
    """
    first = jobs[0]
    if len(jobs) == 1:
        return first.times, first.nodes
    if any((each.ranks, each.nodes) != (first.ranks, first.nodes) for each in jobs):
        raise DpsimError(f"{path}: all jobs must have the same ranks, unless --job names one")
    times = [each.times / np.median(each.times) for each in jobs]
    return np.concatenate(times), first.nodes


def _timed(
    path: Path, job: str, column: str, rows: Sequence[tuple[int, dict[str, str]]]
) -> TimedJob:
    times: dict[int, list[float]] = {}
    nodes: dict[int, int] = {}
    for line, row in rows:
        rank = _number(path, line, row.get("rank") or "0", int)
        seconds = _number(path, line, row[column], float) * _UNITS[column]
        if not (seconds > 0 and math.isfinite(seconds)):
            raise DpsimError(f"{path}:{line}: {column}: must be above 0, but got {row[column]!r}")
        times.setdefault(rank, []).append(seconds)
        nodes[rank] = _number(path, line, row.get("node") or "0", int)

    counts = {len(each) for each in times.values()}
    if len(counts) != 1 or min(counts) < STEPS_TO_FIT:
        of = f" of {job}" if job else ""
        raise DpsimError(
            f"{path}: must have at least {STEPS_TO_FIT} steps{of}, as many of each rank, but got "
            f"{sorted(counts)}"
        )
    ranks = sorted(times)
    found = np.array([times[rank] for rank in ranks]).T
    timed = timed_apart(found, ranks, [nodes[rank] for rank in ranks])
    line, last = rows[-1]
    if not last.get(_WITHOUT):
        return timed
    without: float = _number(path, line, last[_WITHOUT], float)
    return replace(timed, slow_down=float(found.max(axis=1).mean()) / without)


def _number(path: Path, line: int, text: str | None, read: Any) -> Any:
    try:
        return read(text)
    except (TypeError, ValueError):
        raise DpsimError(f"{path}:{line}: must be a number, but got {text!r}") from None
