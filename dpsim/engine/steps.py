"""What happened in each step of each worker: seconds by part, and how stale what it computed was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray

DROPPED = -1


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


def versions_behind(
    starts: FloatArray,
    done: FloatArray,
    rounds: Sequence[tuple[float, float]],
    *,
    drops: bool,
    lag: int,
) -> IntArray:
    """Updates between the reading (at ``starts``) and the applying of each gradient (there at
    ``done``), both (steps, workers).

    See `versions` for what is read and which update a gradient is part of.
    """
    read, gave = versions(starts, done, rounds, drops=drops, lag=lag)
    return np.asarray(np.where(gave == DROPPED, DROPPED, np.maximum(gave - read, 0)))


def versions(
    starts: FloatArray,
    done: FloatArray,
    rounds: Sequence[tuple[float, float]],
    *,
    drops: bool,
    lag: int,
) -> tuple[IntArray, IntArray]:
    """The version that each gradient is computed on and the update that it is part of, or
    `DROPPED`; both (steps, workers).

    ``rounds`` are the begin and end of the collective of each step, an update each. A gradient goes
    into the first that begins when it is there; with ``drops`` only into that of its own step. A
    worker has read whatever it waits for, all but the last ``lag`` rounds, even where it has them
    before the others do or only as it comes to the layer that needs them.
    """
    begins, ends = (np.maximum.accumulate(np.array(times)) for times in zip(*rounds, strict=True))
    own = np.arange(len(starts))[:, None]
    enters = np.searchsorted(begins, done, side="left")
    gave = np.where(drops & (enters > own), DROPPED, np.maximum(enters, own))
    return np.maximum(np.searchsorted(ends, starts, side="right"), own - lag), gave
