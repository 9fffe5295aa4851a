"""What happened in each step of each worker: seconds by part, and staleness."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.strategy.sync import DROPPED


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Arrays of shape (steps, workers); all but the last two are seconds.

    ``compute + input + encode + exposed_comm + straggler_wait`` is the step. ``clock_gap``: how
    many iterations a worker is ahead of the slowest as it begins one. ``versions``: updates that
    were applied between reading parameters and applying the gradient computed on them, `DROPPED`
    where it never was.
    """

    compute: FloatArray
    exposed_comm: FloatArray
    straggler_wait: FloatArray
    overlapped_comm: FloatArray
    input: FloatArray
    encode: FloatArray
    clock_gap: IntArray
    versions: IntArray

    @classmethod
    def empty(cls, steps: int, workers: int) -> Steps:
        """All of it 0."""
        one, two, three, four, five, six = np.zeros((6, steps, workers))
        gap, versions = np.zeros((2, steps, workers), dtype=np.int64)
        return cls(one, two, three, four, five, six, gap, versions)

    @property
    def step(self) -> FloatArray:
        """Seconds of each whole step."""
        return self.compute + self.input + self.encode + self.exposed_comm + self.straggler_wait

    @property
    def counted(self) -> NDArray[np.bool_]:
        """Whether what a worker computed in a step was used."""
        return np.asarray(self.versions != DROPPED)

    def after(self, warmup: int) -> Steps:
        """Without the first steps."""
        return Steps(**{field.name: getattr(self, field.name)[warmup:] for field in fields(self)})


def clock_gaps(starts: FloatArray, done: FloatArray) -> IntArray:
    """How many iterations each worker is ahead of the slowest as it begins one.

    ``starts`` and ``done`` are (steps, workers): when it began to compute and when its gradient was
    there.
    """
    slowest = np.maximum.accumulate(done.max(axis=1))
    finished = np.searchsorted(slowest, starts, side="right")
    return np.asarray(np.maximum(np.arange(len(starts))[:, None] - finished, 0))
