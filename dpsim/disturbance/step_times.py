"""Measured step times of a job, read from a CSV file or a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.disturbance.jitter import Factors

_UNITS = {"step_ms": 1e-3, "step_time_ms": 1e-3, "step_s": 1.0, "step_time_s": 1.0}
STEPS_TO_FIT = 20  # too few steps cannot be split into the parts of jitter


@dataclass(frozen=True, slots=True)
class TimedJob:
    """Step times (s) of one job, shape (steps, ranks), and each rank's number and node."""

    times: Factors
    ranks: list[int]
    nodes: list[int]

    @property
    def slow_down(self) -> float:
        """The mean step over what it would be if all ranks took the median rank's time."""
        # A step ends with its slowest rank.
        return float(self.times.max(axis=1).mean() / np.median(self.times, axis=1).mean())


@dataclass(frozen=True, slots=True)
class StepLog:
    """The seconds per step of each reading of a log or trace after warm-up.

    ``single``: each reading is one step. ``counts_passes``: the tool may count passes instead of
    steps if gradients are accumulated. ``exposed``: the median exposed communication (s).
    ``by_rank``: each rank's times. Both are None if they were not measured.
    """

    tool: str
    seconds: tuple[float, ...]
    single: bool
    counts_passes: bool = False
    exposed: float | None = None
    by_rank: TimedJob | None = None

    @property
    def median(self) -> float:
        """The median reading (s)."""
        return float(np.median(self.seconds))


def steps_in(path: Path, names: Sequence[str], table: Sequence[Mapping[str, str]]) -> TimedJob:
    """Return the step times of a job in ``table``, the rows of the CSV file ``path``.

    One of its columns ``names`` is step_ms, step_time_ms, step_s or step_time_s. If ranks were
    timed separately, there is ``rank`` and optionally ``node``; otherwise rows are whole steps.
    Raises DpsimError.
    """
    column = next((name for name in names if name in _UNITS), None)
    if column is None:
        raise DpsimError(f"{path}: must have one of the columns {', '.join(_UNITS)}")
    jobs = dict.fromkeys(row.get("job") or row.get("case_id") or "" for row in table)
    if len(jobs) > 1:
        raise DpsimError(f"{path}: must have the steps of one job, but has {', '.join(jobs)}")
    times: dict[int, list[float]] = {}
    nodes: dict[int, int] = {}
    for line, row in enumerate(table, 2):
        rank = _number(path, line, row.get("rank") or "0", int)
        seconds = _number(path, line, row[column], float) * _UNITS[column]
        if not (seconds > 0 and math.isfinite(seconds)):
            raise DpsimError(f"{path}:{line}: {column}: must be above 0, but got {row[column]!r}")
        times.setdefault(rank, []).append(seconds)
        nodes[rank] = _number(path, line, row.get("node") or "0", int)

    counts = {len(each) for each in times.values()} or {0}
    if len(counts) != 1 or min(counts) < STEPS_TO_FIT:
        raise DpsimError(
            f"{path}: must have at least {STEPS_TO_FIT} steps, as many of each rank, but got "
            f"{sorted(counts)}"
        )
    ranks = sorted(times)
    found = np.array([times[rank] for rank in ranks]).T
    return TimedJob(found, ranks, [nodes[rank] for rank in ranks])


def pooled(jobs: Sequence[TimedJob]) -> tuple[Factors, list[int]]:
    """Return the times of jobs with the same ranks, and the ranks' nodes.

    Seconds for one job. Several are divided by their medians, because jobs differ in speed.
    """
    first = jobs[0]
    if len(jobs) == 1:
        return first.times, first.nodes
    return np.concatenate([each.times / np.median(each.times) for each in jobs]), first.nodes


def _number(path: Path, line: int, text: str | None, read: Any) -> Any:
    try:
        return read(text)
    except (TypeError, ValueError):
        raise DpsimError(f"{path}:{line}: must be a number, but got {text!r}") from None
