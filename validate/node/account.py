"""Converts the ranks' measurements on a node to the arrays of the simulator.

A worker's compute time is that of steps measured alone, one for each step of the training in turn,
plus its own delays. The rest of a step is waiting for slower workers, as far as they compute
longer, and otherwise communication. The steps alone are not those of the training: single steps are
divided as if they were, and the means are right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray, covered
from dpsim.engine import Job, Steps

Rows = Sequence[Mapping[str, Any]]
Bucket = tuple[int, float, float]


def steps_of(job: Job, rows: Rows) -> Steps:
    """Return the steps of all workers, from their ``rows`` in order of rank."""
    workers = rows[: job.workers]
    whole = min(len(row["step_s"]) for row in workers)
    steps = Steps.empty(whole, len(workers))
    if not whole:
        return steps
    total = _column([row["step_s"] for row in workers], whole)
    steps.input[:] = _part(workers, "input", whole)
    steps.encode[:] = _part(workers, "encode", whole)
    rest = total - steps.input - steps.encode

    pauses = _column([row["pauses_s"] for row in workers], whole)
    alone = _column([np.resize(row["alone_s"], whole).tolist() for row in workers], whole)
    own = pauses + alone
    # A step may be shorter than the steps measured alone: then all of it was computing.
    steps.compute[:] = np.minimum(own, rest)
    beyond = rest - steps.compute
    if not job.acts_alone:
        # (steps, workers): how much longer the slowest worker computes in each step.
        behind = own.max(axis=1, keepdims=True) - own
        steps.straggler_wait[:] = np.minimum(behind, beyond)
    steps.exposed_comm[:] = beyond - steps.straggler_wait

    busy = _column([[_busy(buckets) for buckets in row["carried"]] for row in workers], whole)
    # Exposed communication is not overlapped; waiting for others may exceed the time of sending.
    steps.overlapped_comm[:] = np.maximum(busy - steps.exposed_comm, 0.0)
    return steps


def bucket_seconds(rows: Rows, first: int) -> dict[str, float]:
    """Return the mean seconds of each bucket from start to end, from step ``first`` on."""
    taken: dict[str, list[float]] = {}
    for row in rows:
        for carried in row["carried"][first:]:
            for number, begin, end in carried:
                taken.setdefault(f"bucket{number}", []).append(end - begin)
    return {name: float(np.mean(seconds)) for name, seconds in sorted(taken.items())}


def _busy(buckets: Sequence[Bucket]) -> float:
    """Return the seconds in which at least one bucket was being sent."""
    return covered((begin, end) for _, begin, end in buckets)


def _column(values: Sequence[Sequence[float]], whole: int) -> FloatArray:
    """Return one value for each step of each worker, (steps, workers)."""
    return np.array([own[:whole] for own in values], dtype=float).T


def _part(workers: Rows, name: str, whole: int) -> FloatArray:
    return _column([row["parts_s"].get(name, [0.0] * whole) for row in workers], whole)
