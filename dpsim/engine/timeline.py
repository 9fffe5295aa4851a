"""One step as a list of intervals: what each worker's streams did, from when to when."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray


class Interval(NamedTuple):
    """``name`` on ``stream`` (compute, communication, input) of ``worker``, from ``start`` to
    ``end`` (s).
    """

    worker: int
    stream: str
    name: str
    start: float
    end: float


class Timeline:
    """Collects the intervals of the steps in ``steps``, of workers below ``workers``; times are
    from the start of the run.
    """

    def __init__(self, steps: range, workers: int) -> None:
        self.steps = steps
        self.workers = workers
        self.intervals: list[Interval] = []

    def add(self, stream: str, name: str, starts: FloatArray, ends: FloatArray) -> None:
        """Note an interval of every worker (vectors over them); nothing where it has no length."""
        for worker in np.flatnonzero(ends[: self.workers] > starts[: self.workers]):
            self.one(int(worker), stream, name, float(starts[worker]), float(ends[worker]))

    def one(self, worker: int, stream: str, name: str, start: float, end: float) -> None:
        """Note an interval of one worker."""
        if worker < self.workers and end > start:
            self.intervals.append(Interval(worker, stream, name, start, end))

    def sorted(self) -> list[Interval]:
        """By worker, stream and time."""
        return sorted(
            self.intervals, key=lambda each: (each.worker, each.stream, each.start, each.end)
        )
