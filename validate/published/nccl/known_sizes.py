"""Predict the sizes between the known ones of a calibrated curve by combining two predictions.

One is `refined`, with constants fitted on the known sizes. The other is `described`, by a model
that never saw the machine, shifted to the known sizes. The better the second predicts the change
from one known size to the next, the more weight it gets:

    r_k = ln(measured / described),    s^2 = (sum (r_(k+1) - r_k)^2 + K USUAL^2) / (n + K)
    s_k^2 = (s^2 + (r_(k+1) - r_k)^2) / 2
    trust_k = CLOSE^2 / (CLOSE^2 + s_k^2)

over all n pairs of neighbours of a machine, between sizes k and k + 1. A description that misses a
switch between two known sizes is unreliable between these. The remaining weight goes to the refined
model, drawn towards a smooth curve through the known sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.interpolate import PchipInterpolator

from dpsim.base.arrays import FloatArray
from validate.published.nccl.table import Case

SLACK = 0.1  # by which a time may exceed that of a larger size
# The change from one residual to the next (ln) at which a described model has half the weight; its
# prior value, and the number of changes that the prior counts for.
_HALF_WEIGHT_CHANGE, _PRIOR_CHANGE, _PRIOR_COUNT = 0.05, 0.2, 2
# The largest weight of the smooth curve, the distance from it (ln) at which the weight is half, the
# most octaves between two known sizes for it to bend, and the fewest such sizes.
_SMOOTH_WEIGHT, _HALF_WEIGHT_DISTANCE, _MOST_OCTAVES, _FEWEST_SIZES = 0.85, 0.05, 4.5, 2


def credible(times: FloatArray) -> FloatArray:
    """Limit times by ascending size so that none exceeds a later one by more than `SLACK`."""
    return np.minimum(times, (1 + SLACK) * _least_from(times))


def usual_step(known: Sequence[Case], described: Sequence[FloatArray]) -> float:
    """Return a description's usual error of the change from one ``known`` size to the next (ln).

    ``described`` are its seconds at the known sizes.
    """
    every = [_steps(part, seconds) for part, seconds in zip(known, described, strict=True)]
    steps = np.concatenate(every)
    beforehand = _PRIOR_COUNT * _PRIOR_CHANGE**2
    square = (float(steps @ steps) + beforehand) / (len(steps) + _PRIOR_COUNT)
    return float(np.sqrt(square))


def trust(known: Case, case: Case, described: FloatArray, usual: float) -> FloatArray:
    """Return the weight of a description at each of the case's sizes, 0 to 1.

    ``usual`` is the machine's `usual_step`, used alone beyond the ``known`` sizes.
    """
    own = _steps(known, described[np.isin(case.nbytes, known.nbytes)])
    between = (usual**2 + own**2) / 2
    squares = np.concatenate([[usual**2], between, [usual**2]])
    square = squares[np.searchsorted(known.nbytes, np.asarray(case.nbytes))]
    return np.asarray(_HALF_WEIGHT_CHANGE**2 / (_HALF_WEIGHT_CHANGE**2 + square))


def _steps(known: Case, described: FloatArray) -> FloatArray:
    """Return the change of ln(measured / described) from each known size to the next."""
    return np.diff(np.log(np.asarray(known.times) / described))


def between_the_known(
    known: Case, case: Case, refined: FloatArray, described: FloatArray, usual: float
) -> FloatArray:
    """Return the seconds of the case's sizes, combining both predictions.

    The weighted mean of ln seconds, with the weight of ``described`` given by `trust`.
    """
    believed = trust(known, case, described, usual)
    drawn = towards_smooth(refined, known, case, _SMOOTH_WEIGHT * (1 - believed))
    moved = _correct(described, known, case)
    mean = (1 - believed) * np.log(drawn) + believed * np.log(moved)
    return _in_bounds(np.exp(mean), known, case)


def towards_smooth(
    seconds: FloatArray, known: Case, case: Case, most: FloatArray | float = _SMOOTH_WEIGHT
) -> FloatArray:
    """Return ``seconds`` drawn towards a smooth curve through the known sizes.

    The larger their distance, the likelier the model switches at the wrong size between two known
    ones: a distance d is weighted by ``most`` d / (d + `_HALF_WEIGHT_DISTANCE`).
    """
    if len(known.nbytes) < _FEWEST_SIZES:
        return seconds
    sizes = np.asarray(case.nbytes)
    inside = (sizes > known.nbytes[0]) & (sizes < known.nbytes[-1])
    apart = smooth_log_seconds(known, np.clip(sizes, known.nbytes[0], known.nbytes[-1]))
    apart -= np.log(seconds)
    weight = most * np.abs(apart) / (np.abs(apart) + _HALF_WEIGHT_DISTANCE)
    return np.asarray(seconds * np.exp(np.where(inside, weight * apart, 0.0)))


def smooth_log_seconds(known: Case, nbytes: FloatArray) -> FloatArray:
    """Return ln seconds between the ``known`` sizes, the mean of two curves.

    A monotone cubic of ln over ln bends where protocols switch; straight lines of seconds over
    bytes follow one protocol, a latency and a rate. Between sizes more than `_MOST_OCTAVES`
    apart a cubic is meaningless, and only the lines count.
    """
    at, ends = np.log2(nbytes), np.log2(known.nbytes)
    lines = np.log(np.interp(nbytes, known.nbytes, known.times))
    cubic = PchipInterpolator(ends, np.log(known.times))(at)
    after = np.clip(np.searchsorted(ends, at), 1, len(ends) - 1)
    near = ends[after] - ends[after - 1] <= _MOST_OCTAVES
    return np.where(near, (cubic + lines) / 2, lines)


def _correct(described: FloatArray, known: Case, case: Case) -> FloatArray:
    """Correct ``described`` by its errors at the known sizes, interpolated in ln over octaves."""
    at_known = described[np.isin(case.nbytes, known.nbytes)]
    missed = np.log(np.asarray(known.times) / at_known)
    return described * np.exp(np.interp(np.log2(case.nbytes), np.log2(known.nbytes), missed))


def _in_bounds(seconds: FloatArray, known: Case, case: Case) -> FloatArray:
    """Limit ``seconds`` of the case's sizes to the times of the known sizes around them.

    More bytes take no less time, except for `SLACK`: if the model predicts more between two known
    sizes, it assumes a protocol that did not run there.
    """
    sizes, times = np.asarray(case.nbytes), np.asarray(known.times)
    after = np.searchsorted(known.nbytes, sizes)
    # Times have no upper bound beyond the largest known size, and no lower one before the smallest.
    most = np.append((1 + SLACK) * _least_from(times), np.inf)[after]
    before = np.searchsorted(known.nbytes, sizes, side="right") - 1
    least = np.append(np.maximum.accumulate(times), 0.0)[before] / (1 + SLACK)
    return np.asarray(np.clip(seconds, np.minimum(least, most), most))


def _least_from(times: FloatArray) -> FloatArray:
    """Return the minimum of each time and all later ones."""
    return np.asarray(np.minimum.accumulate(times[::-1])[::-1])
