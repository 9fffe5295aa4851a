"""What happened in each step of each worker: seconds by part, and staleness."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.strategy.sync import DROPPED

# Of `drift`.
_FEWEST = 9  # periods: with fewer, a third says nothing of its own spread
_TOLERATED = 0.01  # of the mean step
_ERRORS = 4.0  # standard errors: one run in 16,000 by chance


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


def drift(step_times: FloatArray, period: int = 1) -> float:
    """By how much of the mean step (a fraction) the last third is longer than the first.

    ``step_times`` are (steps, workers), in s, taken in whole periods of averaging. 0 where steps
    are steady, as far as can be told: a run drifts where the thirds differ by more than 1 % of the
    mean step, and by more than four standard errors of that difference.
    """
    whole = len(step_times) // period
    if whole < _FEWEST:
        return 0.0
    means = step_times[: whole * period].mean(axis=1).reshape(whole, period).mean(axis=1)
    third = whole // 3
    first, last = means[:third], means[-third:]
    difference = float(last.mean() - first.mean())
    error = float(np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / third))
    relative = difference / float(means.mean())
    return relative if abs(relative) > _TOLERATED and abs(difference) > _ERRORS * error else 0.0
