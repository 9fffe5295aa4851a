"""What happened in each step of each worker: seconds by part, and staleness."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Literal

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray

# Each but "other" is an attribute of `Steps`.
PartName = Literal["compute", "input", "encode", "exposed_comm", "straggler_wait", "other"]


@dataclass(frozen=True, slots=True)
class Part:
    """A part of a step: ``title`` as a row of a table, ``words`` within a sentence.

    ``colour`` is the name of one of the colours of figures.
    """

    title: str
    words: str
    colour: str


PARTS: Mapping[PartName, Part] = {
    "compute": Part("computing (forward, backward, optimiser)", "computing", "blue"),
    "input": Part("waiting for input", "waiting for input", "sky blue"),
    "encode": Part("encoding and decoding", "encoding and decoding", "reddish purple"),
    "exposed_comm": Part("communication that nothing hides", "exposed communication", "orange"),
    "straggler_wait": Part("waiting for slower workers", "waiting for slower workers", "vermilion"),
    "other": Part("other", "other", "grey"),
}

# Of `unsettled`.
_FEWEST = 9  # periods: with fewer, a third says nothing of its own spread
_TOLERATED = 0.01  # of the mean step
_ERRORS = 4.0  # standard errors: one run in 16,000 by chance
_BIAS = 0.001  # of the mean step, by the first ones
_START_ERRORS = 5.0  # standard errors, since the first ones are chosen
_AHEAD = 0.02  # iterations that fast workers gain in one
_PILED_UP = 1.02  # seconds of communication in one of all
_RUN_AHEAD = "fast workers still run ahead, by {:.1%} of their steps"


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

    def time_of_all(self) -> float:
        """Seconds in which as many steps are taken as there are workers, each at its own pace."""
        # Paces add up, times do not: the harmonic mean of the workers' steps.
        paces = 1 / self.step.mean(axis=0)
        return float(len(paces) / paces.sum())

    def after(self, warmup: int) -> Steps:
        """Without the first steps."""
        return Steps(**{field.name: getattr(self, field.name)[warmup:] for field in fields(self)})


def seconds_covered(spans: Sequence[tuple[float, float]]) -> float:
    """Seconds in which at least one of some ``spans``, (begin, end) each, is under way.

    Collectives of several communicators may be so side by side.
    """
    if not spans:
        return 0.0
    begins, ends = np.array(sorted(spans)).T
    until = np.concatenate([[-np.inf], np.maximum.accumulate(ends)[:-1]])
    return float(np.maximum(ends - np.maximum(begins, until), 0.0).sum())


def unsettled(
    steps: Steps, period: int = 1, *, keep_pace: bool = True, one_by_one: bool = True
) -> str | None:
    """What shows that more steps would have another mean; None where they are steady.

    ``keep_pace``: no worker may take more steps than the others for good. ``one_by_one``: one
    collective at a time is on its way. As far as can be told: with fewer than nine whole periods of
    averaging, nothing can but that communication piles up and that workers outpace others.
    """
    # One collective at a time cannot take longer than its steps: what is more still lies ahead.
    busy = float((steps.exposed_comm + steps.overlapped_comm).mean() / steps.step.mean())
    if one_by_one and busy > _PILED_UP:
        return f"communication piles up, {busy:.1%} of the time that there is for it"
    if len(steps.step) // period < _FEWEST:
        ahead = _outpaced(steps) if keep_pace else 0.0
        return _RUN_AHEAD.format(ahead) if ahead > _AHEAD else None
    change = drift(steps.step, period)
    if change:
        longer = "longer" if change > 0 else "shorter"
        return f"the last third is {abs(change):.1%} {longer} than the first"
    start = start_up(steps.step, period)
    if start:
        longer = "shorter" if start > 0 else "longer"
        return f"the first steps, unlike the others, make the mean {abs(start):.1%} {longer}"
    ahead = _gain(steps.clock_gap, period) if keep_pace else 0.0
    if ahead > _AHEAD:
        return _RUN_AHEAD.format(ahead)
    return None


def start_up(step_times: FloatArray, period: int = 1) -> float:
    """By how much of the mean step (a fraction) the first steps make it shorter, 0 if they do not.

    The first steps are those without which the mean of the others has the least standard error
    (MSER: White, "An effective truncation heuristic for bias reduction in simulation output",
    Simulation 69, 1997), at most half of them. They count where they change the mean by more than
    0.1 %, and differ from the others by more than five standard errors.
    """
    whole = len(step_times) // period
    # By whole periods of averaging, since the steps of one differ on purpose.
    means = step_times[: whole * period].mean(axis=1).reshape(whole, period).mean(axis=1)
    # Entry d of these is of the periods that are left when the first d are dropped.
    left = np.arange(whole, whole - whole // 2, -1)
    sums, squares = np.cumsum(means[::-1])[::-1], np.cumsum(means[::-1] ** 2)[::-1]
    tails = sums[: len(left)] / left
    spread = np.maximum(squares[: len(left)] / left - tails**2, 0.0)
    # A variance over the number of what it is of: the squared standard error of a mean.
    cut = int((spread / left).argmin())
    if not cut:
        return 0.0
    error = float(np.sqrt(spread[cut] * (1 / cut + 1 / left[cut])))
    apart = abs(float(means[:cut].mean() - tails[cut]))
    change = 1 - float(tails[0] / tails[cut])
    return change if abs(change) > _BIAS and apart > _START_ERRORS * error else 0.0


def _gain(gaps: IntArray, period: int) -> float:
    """Iterations that the mean worker gains on the slowest in one; 0 where that may be chance."""
    first, second, last = (_thirds(gaps, period)[third] for third in range(3))
    gained = float(last.mean() - first.mean())
    error = float(np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / len(first)))
    # Workers that gain for good do so all the way; what comes and goes does not rise twice.
    steady = not first.mean() < second.mean() < last.mean()
    if steady or gained <= _ERRORS * error:
        return 0.0
    # The middles of the first and the last third are two thirds of the steps apart.
    return gained / (2 * len(first) * period)


def _outpaced(steps: Steps) -> float:
    """Iterations that the mean worker gains on the slowest in one; 0 where that may be chance.

    Chance is what a worker's own computing differs from step to step, all workers taken together.
    Its waiting does so on purpose, where a bound begins to hold it.
    """
    number, workers = steps.compute.shape
    if number < 2:
        return 0.0
    paces = steps.step.mean(axis=0)
    error = np.sqrt(steps.compute.var(axis=0, ddof=1).mean() / number)
    # The slowest is chosen: of m normal means the greatest is sqrt(2 ln m) errors out.
    chance = (_ERRORS + np.sqrt(2 * np.log(workers))) * error
    apart = paces.max() - paces.mean()
    return float((paces.max() / paces).mean()) - 1 if apart > chance else 0.0


def _thirds(values: FloatArray | IntArray, period: int) -> tuple[FloatArray, ...]:
    """Means over workers and whole periods, (periods,), of the first, second and last third."""
    whole = len(values) // period
    means = values[: whole * period].mean(axis=1).reshape(whole, period).mean(axis=1)
    third = whole // 3
    return means[:third], means[third : whole - third], means[whole - third :]


def drift(step_times: FloatArray, period: int = 1) -> float:
    """By how much of the mean step (a fraction) the last third is longer than the first.

    ``step_times`` are (steps, workers), in s, taken in whole periods of averaging. 0 where steps
    are steady, as far as can be told: a run drifts where the thirds differ by more than 1 % of the
    mean step, and by more than four standard errors of that difference.
    """
    whole = len(step_times) // period
    if whole < _FEWEST:
        return 0.0
    first, second, last = _thirds(step_times, period)
    difference = float(last.mean() - first.mean())
    error = float(np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / len(first)))
    relative = difference / float(np.concatenate([first, second, last]).mean())
    return relative if abs(relative) > _TOLERATED and abs(difference) > _ERRORS * error else 0.0
