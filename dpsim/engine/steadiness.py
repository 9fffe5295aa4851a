"""Tests whether steps are steady: whether more of them would have the same mean."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.engine.steps import Steps

FEWEST = 9  # periods, to know the spread within each third
_TOLERATED = 0.01  # share of the mean step
_ERRORS = 4.0  # standard errors: exceeded by chance in one run of 16,000
_APART = 3.0  # standard errors, beyond which more steps are simulated
_BIAS = 0.001  # share of the mean step, caused by the first steps
_START_ERRORS = 5.0  # standard errors; stricter, because the number of first steps is chosen
_AHEAD = 0.02  # iterations that fast workers gain per iteration
_PILED_UP = 1.02  # seconds of communication per second
_BATCHES = 24  # each long enough that one worker's effect on the next has mostly passed


def unsettled(
    steps: Steps,
    period: int = 1,
    *,
    keep_pace: bool = True,
    one_by_one: bool = True,
    independent_workers: bool = False,
) -> str | None:
    """Return why more steps would have another mean, or None if they are steady.

    ``keep_pace``: no worker may permanently take more steps than the others. ``one_by_one``: only
    one collective at a time is in flight. ``independent_workers``: workers are asynchronous, and
    one worker's step affects the others for several steps. With fewer than nine whole averaging
    periods, only two causes are detected: communication that piles up, and workers that outpace
    others.
    """
    # Collectives that run one at a time cannot take longer than the steps: any excess piles up.
    busy = float((steps.exposed_comm + steps.overlapped_comm).mean() / steps.step.mean())
    piles = piled_up(busy) if one_by_one else None
    if piles is not None:
        return piles
    ahead = (
        running_ahead(steps, period, independent_workers=independent_workers) if keep_pace else None
    )
    if len(steps.step) // period < FEWEST:
        return ahead
    times = _batches(steps.step) if independent_workers else steps.step
    change = drift(times, period)
    if change:
        longer = "longer" if change > 0 else "shorter"
        return f"the last third is {abs(change):.1%} {longer} than the first"
    start = start_up(times, period)
    if start:
        longer = "shorter" if start > 0 else "longer"
        return f"the first steps, unlike the others, make the mean {abs(start):.1%} {longer}"
    return ahead


def running_ahead(
    steps: Steps, period: int = 1, *, independent_workers: bool = False
) -> str | None:
    """Return a message if fast workers take more steps than the others, else None."""
    few = len(steps.step) // period < FEWEST
    ahead = (
        _outpaced(steps, independent_workers=independent_workers)
        if few
        else _gain(steps.clock_gap, period)
    )
    return (
        f"fast workers still run ahead, by {ahead:.1%} of their steps" if ahead > _AHEAD else None
    )


def piled_up(busy: float) -> str | None:
    """Return a message if a communicator is ``busy`` for more than 100 % of a step, else None."""
    if busy <= _PILED_UP:
        return None
    return f"communication piles up, it takes {busy:.1%} of the time available"


def departure(steps: Steps, further: Steps) -> float:
    """Return how much longer the ``further`` steps are, as a share of the mean of ``steps``, or 0.

    Both are of asynchronous workers. They differ if the further mean is more than 1 % away and by
    more than three standard errors of ``steps``. Workers that keep a rhythm look the same from step
    to step, which no test on ``steps`` alone finds.
    """
    times = steps.step.mean(axis=1)
    mean, spread = float(times.mean()), float(times.std(ddof=1)) if len(times) > 1 else 0.0
    difference = float(further.step.mean()) - mean
    error = spread / np.sqrt(len(times))
    is_significant = abs(difference) > max(_TOLERATED * mean, _APART * error)
    return difference / mean if is_significant else 0.0


def _batches(step_times: FloatArray) -> FloatArray:
    """Return means over consecutive steps: at most 24 equal batches, without the remainder."""
    length = max(len(step_times) // _BATCHES, 1)
    number = len(step_times) // length
    whole = step_times[len(step_times) - number * length :]
    return np.asarray(whole.reshape(number, length, -1).mean(axis=1))


def start_up(step_times: FloatArray, period: int = 1) -> float:
    """Return how much the first steps shorten the mean step, as a share of it, or 0.

    The first steps are those without which the mean of the others has the least standard error
    (MSER: White, "An effective truncation heuristic for bias reduction in simulation output",
    Simulation 69, 1997), at most half of them. They count if they change the mean by more than
    0.1 %, and differ from the others by more than five standard errors.
    """
    whole = len(step_times) // period
    # By whole averaging periods, because the steps within one differ by design.
    means = step_times[: whole * period].mean(axis=1).reshape(whole, period).mean(axis=1)
    # Entry d is for the periods that remain when the first d are dropped.
    left = np.arange(whole, whole - whole // 2, -1)
    sums, squares = np.cumsum(means[::-1])[::-1], np.cumsum(means[::-1] ** 2)[::-1]
    tails = sums[: len(left)] / left
    spread = np.maximum(squares[: len(left)] / left - tails**2, 0.0)
    # A variance divided by the sample size is the squared standard error of the mean.
    cut = int((spread / left).argmin())
    if not cut:
        return 0.0
    error = float(np.sqrt(spread[cut] * (1 / cut + 1 / left[cut])))
    difference = abs(float(means[:cut].mean() - tails[cut]))
    change = 1 - float(tails[0] / tails[cut])
    return change if abs(change) > _BIAS and difference > _START_ERRORS * error else 0.0


def _gain(gaps: IntArray, period: int) -> float:
    """Return how much the mean worker gains on the slowest per iteration; 0 if by chance."""
    first, second, last = (_thirds(gaps, period)[third] for third in range(3))
    gained = float(last.mean() - first.mean())
    error = float(np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / len(first)))
    # A permanent gain rises all the way; a fluctuation does not rise twice.
    steady = not first.mean() < second.mean() < last.mean()
    if steady or gained <= _ERRORS * error:
        return 0.0
    # The centres of the first and the last third are two thirds of the steps apart.
    return gained / (2 * len(first) * period)


def _outpaced(steps: Steps, *, independent_workers: bool) -> float:
    """Return how much the mean worker gains on the slowest per iteration; 0 if by chance.

    Chance is the variation of a worker's computing from step to step, pooled over all workers, and
    for ``independent_workers`` also of its communication, which others disturb. Waiting is left
    out, because it changes when a staleness bound begins to hold a worker back.
    """
    number, workers = steps.compute.shape
    if number < 2:
        return 0.0
    paces = steps.step.mean(axis=0)
    own = steps.compute + steps.exposed_comm if independent_workers else steps.compute
    error = np.sqrt(own.var(axis=0, ddof=1).mean() / number)
    # The slowest is chosen: the greatest of m normal means is about sqrt(2 ln m) errors away.
    chance = (_ERRORS + np.sqrt(2 * np.log(workers))) * error
    difference = paces.max() - paces.mean()
    return float((paces.max() / paces).mean()) - 1 if difference > chance else 0.0


def _thirds(values: FloatArray | IntArray, period: int) -> tuple[FloatArray, ...]:
    """Return the means over workers and whole periods, (periods,), of the three thirds."""
    whole = len(values) // period
    means = values[: whole * period].mean(axis=1).reshape(whole, period).mean(axis=1)
    third = whole // 3
    return means[:third], means[third : whole - third], means[whole - third :]


def drift(step_times: FloatArray, period: int = 1) -> float:
    """Return how much longer the last third is than the first, as a share of the mean step.

    ``step_times`` are (steps, workers), in s, taken in whole averaging periods. Returns 0 if steps
    are steady as far as can be seen: a run drifts if the thirds differ by more than 1 % of the mean
    step, and by more than four standard errors of that difference.
    """
    whole = len(step_times) // period
    if whole < FEWEST:
        return 0.0
    first, second, last = _thirds(step_times, period)
    difference = float(last.mean() - first.mean())
    error = float(np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / len(first)))
    relative = difference / float(np.concatenate([first, second, last]).mean())
    return relative if abs(relative) > _TOLERATED and abs(difference) > _ERRORS * error else 0.0
