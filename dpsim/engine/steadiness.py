"""Whether steps are steady: whether more of them would have the same mean."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.engine.steps import Steps

FEWEST = 9  # periods: with fewer, a third says nothing of its own spread
_TOLERATED = 0.01  # of the mean step
_ERRORS = 4.0  # standard errors: one run in 16,000 by chance
_APART = 3.0  # standard errors, beyond which more steps are simulated
_BIAS = 0.001  # of the mean step, by the first ones
_START_ERRORS = 5.0  # standard errors, since the first ones are chosen
_AHEAD = 0.02  # iterations that fast workers gain in one
_PILED_UP = 1.02  # seconds of communication in one of all
_BATCHES = 24  # in each of which what one worker does to the next has mostly passed


def unsettled(
    steps: Steps,
    period: int = 1,
    *,
    keep_pace: bool = True,
    one_by_one: bool = True,
    alone: bool = False,
) -> str | None:
    """What shows that more steps would have another mean; None where they are steady.

    ``keep_pace``: no worker may take more steps than the others for good. ``one_by_one``: one
    collective at a time is on its way. ``alone``: workers act alone, so that what one does now is
    felt by the others in some steps to come. As far as can be told: with fewer than nine whole
    periods of averaging, nothing can but that communication piles up and that workers outpace
    others.
    """
    # One collective at a time cannot take longer than its steps: what is more still lies ahead.
    busy = float((steps.exposed_comm + steps.overlapped_comm).mean() / steps.step.mean())
    piles = piled_up(busy) if one_by_one else None
    if piles is not None:
        return piles
    ahead = running_ahead(steps, period, alone=alone) if keep_pace else None
    if len(steps.step) // period < FEWEST:
        return ahead
    times = _batches(steps.step) if alone else steps.step
    change = drift(times, period)
    if change:
        longer = "longer" if change > 0 else "shorter"
        return f"the last third is {abs(change):.1%} {longer} than the first"
    start = start_up(times, period)
    if start:
        longer = "shorter" if start > 0 else "longer"
        return f"the first steps, unlike the others, make the mean {abs(start):.1%} {longer}"
    return ahead


def running_ahead(steps: Steps, period: int = 1, *, alone: bool = False) -> str | None:
    """What shows that fast workers take more steps than the others, None where nothing does."""
    few = len(steps.step) // period < FEWEST
    ahead = _outpaced(steps, alone=alone) if few else _gain(steps.clock_gap, period)
    return (
        f"fast workers still run ahead, by {ahead:.1%} of their steps" if ahead > _AHEAD else None
    )


def piled_up(busy: float) -> str | None:
    """What is to be said where a communicator is ``busy`` for longer than all the time there is."""
    if busy <= _PILED_UP:
        return None
    return f"communication piles up, {busy:.1%} of the time that there is for it"


def departure(steps: Steps, further: Steps) -> float:
    """By how much of the mean of ``steps`` that of ``further`` ones is longer, 0 if it is not.

    Both are of workers that act alone. They differ where the further mean is more than 1 % away and
    outside of what ``steps`` say of their own: more than three of their standard errors.
    Workers that keep a rhythm look alike from step to step, which no test within them finds out.
    """
    times = steps.step.mean(axis=1)
    mean, spread = float(times.mean()), float(times.std(ddof=1)) if len(times) > 1 else 0.0
    difference = float(further.step.mean()) - mean
    error = spread / np.sqrt(len(times))
    told_apart = abs(difference) > max(_TOLERATED * mean, _APART * error)
    return difference / mean if told_apart else 0.0


def _batches(step_times: FloatArray) -> FloatArray:
    """Means over steps in a row: 24 at most, of as many steps each, without what is left over."""
    length = max(len(step_times) // _BATCHES, 1)
    number = len(step_times) // length
    whole = step_times[len(step_times) - number * length :]
    return np.asarray(whole.reshape(number, length, -1).mean(axis=1))


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


def _outpaced(steps: Steps, *, alone: bool) -> float:
    """Iterations that the mean worker gains on the slowest in one; 0 where that may be chance.

    Chance is what a worker's own computing differs from step to step, all workers taken together,
    and, of workers that act ``alone``, its communication, as others get in its way. Its waiting
    does so on purpose, where a bound begins to hold it.
    """
    number, workers = steps.compute.shape
    if number < 2:
        return 0.0
    paces = steps.step.mean(axis=0)
    own = steps.compute + steps.exposed_comm if alone else steps.compute
    error = np.sqrt(own.var(axis=0, ddof=1).mean() / number)
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
    if whole < FEWEST:
        return 0.0
    first, second, last = _thirds(step_times, period)
    difference = float(last.mean() - first.mean())
    error = float(np.sqrt((first.var(ddof=1) + last.var(ddof=1)) / len(first)))
    relative = difference / float(np.concatenate([first, second, last]).mean())
    return relative if abs(relative) > _TOLERATED and abs(difference) > _ERRORS * error else 0.0
