"""Between the known sizes of a calibrated curve: what they bear out of two answers for the others.

One is `refined`, of constants that were fitted on the known sizes. The other is `described`, of a
model that never saw the machine, moved to them. The better the second told how the known sizes
follow one another, the more it is believed:

    r_k = ln(measured / described),    s^2 = (sum (r_(k+1) - r_k)^2 + K USUAL^2) / (n + K)
    s_k^2 = (s^2 + (r_(k+1) - r_k)^2) / 2
    trust_k = CLOSE^2 / (CLOSE^2 + s_k^2)

over all n pairs of neighbours of a machine, between sizes k and k + 1. A description that misses a
switch between two known sizes says little of what lies between these. With what trust is left the
refined model counts, drawn towards a smooth curve through the known sizes.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.interpolate import PchipInterpolator

from dpsim.base.arrays import FloatArray
from validate.published.nccl.table import Case

SLACK = 0.1  # by which a time may exceed that of a larger size
# The step from one residual to the next (ln) at which a described model is half believed; what it
# is before any is known, and for how many steps that stands.
_CLOSE, _USUAL, _BEFOREHAND = 0.05, 0.2, 2
# How much the smooth curve counts at most, at which distance from it (ln) half as much, within how
# many octaves between two known sizes it may bend, and from how many of these on.
_SMOOTH, _APART, _GAP, _FEWEST = 0.85, 0.05, 4.5, 2


def credible(times: FloatArray) -> FloatArray:
    """Times by ascending size, none above a later one by more than `SLACK`."""
    return np.minimum(times, (1 + SLACK) * _least_from(times))


def usual_step(known: Sequence[Case], described: Sequence[FloatArray]) -> float:
    """How far a description misses a step from one ``known`` size of a machine to the next (ln).

    ``described`` are its seconds of the known sizes.
    """
    every = [_steps(part, says) for part, says in zip(known, described, strict=True)]
    steps = np.concatenate(every)
    beforehand = _BEFOREHAND * _USUAL**2
    square = (float(steps @ steps) + beforehand) / (len(steps) + _BEFOREHAND)
    return float(np.sqrt(square))


def trust(known: Case, case: Case, described: FloatArray, usual: float) -> FloatArray:
    """How much a description is believed at each of the case's sizes, 0 to 1.

    ``usual`` is the machine's `usual_step`, which stands alone beyond the ``known`` sizes.
    """
    own = _steps(known, described[np.isin(case.nbytes, known.nbytes)])
    between = (usual**2 + own**2) / 2
    squares = np.concatenate([[usual**2], between, [usual**2]])
    square = squares[np.searchsorted(known.nbytes, np.asarray(case.nbytes))]
    return np.asarray(_CLOSE**2 / (_CLOSE**2 + square))


def _steps(known: Case, described: FloatArray) -> FloatArray:
    """From each known size to the next, the change of ln(measured / described)."""
    return np.diff(np.log(np.asarray(known.times) / described))


def between_the_known(
    known: Case, case: Case, refined: FloatArray, described: FloatArray, usual: float
) -> FloatArray:
    """Seconds of the case's sizes, as far as the ``known`` ones around them bear out both answers.

    The mean of ln seconds, in which ``described`` counts as far as it is believed (`trust`).
    """
    believed = trust(known, case, described, usual)
    drawn = towards_smooth(refined, known, case, _SMOOTH * (1 - believed))
    moved = _moved(described, known, case)
    mean = (1 - believed) * np.log(drawn) + believed * np.log(moved)
    return _in_bounds(np.exp(mean), known, case)


def towards_smooth(
    seconds: FloatArray, known: Case, case: Case, most: FloatArray | float = _SMOOTH
) -> FloatArray:
    """``seconds``, drawn towards a smooth curve through the known sizes.

    The further the two are apart, the likelier the model switches at the wrong size between two
    known ones: a distance d counts by ``most`` d / (d + `_APART`).
    """
    if len(known.nbytes) < _FEWEST:
        return seconds
    sizes = np.asarray(case.nbytes)
    inside = (sizes > known.nbytes[0]) & (sizes < known.nbytes[-1])
    apart = smooth_log_seconds(known, np.clip(sizes, known.nbytes[0], known.nbytes[-1]))
    apart -= np.log(seconds)
    weight = most * np.abs(apart) / (np.abs(apart) + _APART)
    return np.asarray(seconds * np.exp(np.where(inside, weight * apart, 0.0)))


def smooth_log_seconds(known: Case, nbytes: FloatArray) -> FloatArray:
    """Ln seconds between the ``known`` sizes, the mean of two curves.

    A monotone cubic of ln over ln bends where protocols switch; straight lines of seconds over
    bytes are what one protocol takes, a latency and a rate. Between sizes further apart than `_GAP`
    a cubic says nothing, and lines count alone.
    """
    at, ends = np.log2(nbytes), np.log2(known.nbytes)
    lines = np.log(np.interp(nbytes, known.nbytes, known.times))
    cubic = PchipInterpolator(ends, np.log(known.times))(at)
    after = np.clip(np.searchsorted(ends, at), 1, len(ends) - 1)
    near = ends[after] - ends[after - 1] <= _GAP
    return np.where(near, (cubic + lines) / 2, lines)


def _moved(described: FloatArray, known: Case, case: Case) -> FloatArray:
    """``described`` times what it misses the known sizes by: ln, straight over octaves."""
    at_known = described[np.isin(case.nbytes, known.nbytes)]
    missed = np.log(np.asarray(known.times) / at_known)
    return described * np.exp(np.interp(np.log2(case.nbytes), np.log2(known.nbytes), missed))


def _in_bounds(seconds: FloatArray, known: Case, case: Case) -> FloatArray:
    """``seconds`` of the case's sizes, none beyond what the known sizes around it take.

    More bytes take no less time, but for `SLACK`: a protocol that the model prices too high between
    two known sizes is not what ran there.
    """
    sizes, times = np.asarray(case.nbytes), np.asarray(known.times)
    after = np.searchsorted(known.nbytes, sizes)
    # Beyond the largest known size nothing bounds a time from above, before the smallest nothing
    # from below.
    most = np.append((1 + SLACK) * _least_from(times), np.inf)[after]
    before = np.searchsorted(known.nbytes, sizes, side="right") - 1
    least = np.append(np.maximum.accumulate(times), 0.0)[before] / (1 + SLACK)
    return np.asarray(np.clip(seconds, np.minimum(least, most), most))


def _least_from(times: FloatArray) -> FloatArray:
    """The least of each time and all after it."""
    return np.asarray(np.minimum.accumulate(times[::-1])[::-1])
