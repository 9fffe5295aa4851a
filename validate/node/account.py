"""From what ranks measured on a node to the arrays that the simulator gives.

A worker's computing is what steps take alone, one for each step of the training in turn, its own
delays included. What a step takes beyond that is waiting for slower workers, as far as they compute
longer, and else communication. Steps alone are others than those of the training: single steps are
divided as if these had been those, and their means are right.
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
    """The steps of all workers, from their ``rows`` in order of rank."""
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
    # A step may be shorter than what was measured alone: then all of it was computing.
    steps.compute[:] = np.minimum(own, rest)
    beyond = rest - steps.compute
    if not job.acts_alone:
        # (steps, workers): how much longer the slowest worker computes in each step.
        behind = own.max(axis=1, keepdims=True) - own
        steps.straggler_wait[:] = np.minimum(behind, beyond)
    steps.exposed_comm[:] = beyond - steps.straggler_wait

    busy = _column([[_busy(buckets) for buckets in row["carried"]] for row in workers], whole)
    # What of sending shows is not hidden; waiting for others may show more than was sent.
    steps.overlapped_comm[:] = np.maximum(busy - steps.exposed_comm, 0.0)
    return steps


def bucket_seconds(rows: Rows, first: int) -> dict[str, float]:
    """Mean seconds of each bucket from its setting out until it came, from step ``first`` on."""
    taken: dict[str, list[float]] = {}
    for row in rows:
        for carried in row["carried"][first:]:
            for number, begin, end in carried:
                taken.setdefault(f"bucket{number}", []).append(end - begin)
    return {name: float(np.mean(seconds)) for name, seconds in sorted(taken.items())}


def _busy(buckets: Sequence[Bucket]) -> float:
    """Seconds in which at least one bucket was on its way."""
    return covered((begin, end) for _, begin, end in buckets)


def _column(values: Sequence[Sequence[float]], whole: int) -> FloatArray:
    """One value of each step of each worker, (steps, workers)."""
    return np.array([own[:whole] for own in values], dtype=float).T


def _part(workers: Rows, name: str, whole: int) -> FloatArray:
    return _column([row["parts_s"].get(name, [0.0] * whole) for row in workers], whole)
