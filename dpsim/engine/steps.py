"""The steps of each worker: seconds by part, and staleness."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray

_RESAMPLES = 1000

# Each except "other" is an attribute of `Steps`.
PartName = Literal["compute", "input", "encode", "exposed_comm", "straggler_wait", "other"]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a step: ``title`` as a row of a table, ``words`` within a sentence.

    ``colour`` is the name of a colour of the figures.
    """

    title: str
    words: str
    colour: str


PARTS: Mapping[PartName, Part] = {
    "compute": Part("computing (forward, backward, optimiser)", "computing", "blue"),
    "input": Part("waiting for input", "waiting for input", "sky blue"),
    "encode": Part("encoding and decoding", "encoding and decoding", "reddish purple"),
    "exposed_comm": Part("exposed communication", "exposed communication", "orange"),
    "straggler_wait": Part("waiting for slower workers", "waiting for slower workers", "vermilion"),
    "other": Part("other", "other", "grey"),
}


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Arrays of shape (steps, workers); all but the last two are seconds.

    ``compute + input + encode + exposed_comm + straggler_wait`` is the step. ``clock_gap``: how
    many iterations a worker is ahead of the slowest as it begins one. ``versions``: updates that
    were applied between reading parameters and applying the gradient computed on them, `DROPPED`
    if it was never applied.
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
        """Return steps with all values 0."""
        seconds = np.zeros((6, steps, workers))
        return cls(*seconds, *np.zeros((2, steps, workers), dtype=np.int64))

    @property
    def step(self) -> FloatArray:
        """Seconds of each whole step."""
        return self.compute + self.input + self.encode + self.exposed_comm + self.straggler_wait

    def time_of_all(self) -> float:
        """Return the seconds in which as many steps are taken as there are workers.

        Each worker runs at its own pace.
        """
        # Paces add up, times do not: this is the harmonic mean of the workers' steps.
        paces = 1 / self.step.mean(axis=0)
        return float(len(paces) / paces.sum())

    def busiest(self) -> float:
        """Return the mean seconds in which the slowest worker computes and sends in a step.

        Without the waiting for input, which would hide that input is slow.
        """
        return float((self.compute + self.exposed_comm).mean(axis=0).max())

    def resampled_means(self, seed: int, blocks: int) -> FloatArray:
        """Return mean steps (s) of runs redrawn from at most ``blocks`` blocks of these steps."""
        # Whole steps are drawn, because workers wait for one another: their times in one step
        # are not independent.
        means = self.step.mean(axis=1)
        split = np.array_split(means, min(len(means), blocks))
        of_blocks = np.array([block.mean() for block in split])
        generator = np.random.default_rng(seed)
        chosen = generator.integers(0, len(split), (_RESAMPLES, len(split)))
        return np.asarray(of_blocks[chosen].mean(axis=1))

    def after(self, warmup: int) -> Steps:
        """Return the steps without the first ``warmup``."""
        return Steps(**{field.name: getattr(self, field.name)[warmup:] for field in fields(self)})


def spread(values: FloatArray) -> dict[str, float]:
    """Return mean, median, 95th percentile and maximum."""
    return {
        "mean": float(values.mean()),
        "median": float(np.median(values)),
        "p95": float(np.percentile(values, 95)),
        "max": float(values.max()),
    }


def distribution(values: IntArray) -> dict[str, Any]:
    """Return mean, median, 95th percentile, maximum and histogram of counts, from 0 on."""
    # No gradient counts if all were dropped.
    if not len(values):
        return {"mean": 0.0, "median": 0.0, "p95": 0.0, "max": 0, "histogram": []}
    return {
        **spread(values.astype(np.float64)),
        "max": int(values.max()),
        "histogram": np.bincount(values).tolist(),
    }
