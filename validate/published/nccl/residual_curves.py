"""The residuals of a calibrated model, interpolated over size.

A Gaussian process on ln(measured / model).

    covariance of two rows = sum over the levels at which both are in one group of
                             s^2 k(|log2 S - log2 S'| / l)
    k(d) = (1 + sqrt(3) d) exp(-sqrt(3) d)

k is Matern 3/2: smooth, but no smoother than curves of times are.

Two levels: rows of one operation on the same number of GPUs share a curve, and each case has its
own around it. Rows that NCCL runs with different algorithms or protocols share nothing, as one says
nothing about the other. Without a measured row nearby the correction falls back to none. Outliers
have little weight (Student's t with `_DEGREES_OF_FREEDOM` degrees, by reweighting).

Spreads, scale and noise are the same for all machines. They were chosen by hand among some twenty
settings while looking at the public tables, not fitted on other machines; doubled spreads, half the
scale and twice the noise moved group means by up to 0.5 points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from scipy.linalg import cho_factor, cho_solve

from dpsim.base.arrays import FloatArray

_SHARED_SPREAD, _OWN_SPREAD = 0.1, 0.05  # of ln(measured / model)
_OCTAVES = 4.0  # distance over which a curve may change, in doublings of the size
_NOISE = 0.03
_DEGREES_OF_FREEDOM = 4.0
_REWEIGHTINGS = 3


@dataclass(frozen=True, slots=True)
class Curve:
    """The residuals of the model for one case, over its sizes.

    Bytes, the branch used at each size, and ln(measured / model), NaN where nothing was measured.
    """

    shared: object
    nbytes: FloatArray
    branch: npt.NDArray[np.int64]
    residual: FloatArray


def corrections(curves: Sequence[Curve]) -> list[FloatArray]:
    """Return, for each curve, the factor on the model's seconds at every size."""
    residual = np.concatenate([curve.residual for curve in curves])
    measured = np.isfinite(residual)
    # (all sizes, measured sizes): the measured sizes correct each size.
    covariance = _covariance(curves)[:, measured]
    weights = _weights(covariance[measured], residual[measured])
    factors = np.exp(covariance @ weights)
    ends = np.cumsum([len(curve.nbytes) for curve in curves])
    return np.split(factors, ends[:-1])


def _covariance(curves: Sequence[Curve]) -> FloatArray:
    octaves = np.log2(np.concatenate([curve.nbytes for curve in curves]))
    distance = np.sqrt(3) * np.abs(octaves[:, None] - octaves) / _OCTAVES
    numbers: dict[object, int] = {}
    shared = [
        numbers.setdefault((curve.shared, branch), len(numbers))
        for curve in curves
        for branch in curve.branch.tolist()
    ]
    own = [
        numbers.setdefault((index, branch), len(numbers))
        for index, curve in enumerate(curves)
        for branch in curve.branch.tolist()
    ]
    spread = _SHARED_SPREAD**2 * _same(shared) + _OWN_SPREAD**2 * _same(own)
    result: FloatArray = spread * (1 + distance) * np.exp(-distance)
    return result


def _same(groups: Sequence[int]) -> npt.NDArray[np.bool_]:
    numbers = np.asarray(groups)
    result: npt.NDArray[np.bool_] = numbers[:, None] == numbers
    return result


def _weights(covariance: FloatArray, residual: FloatArray) -> FloatArray:
    """Return (K + noise)^-1 r, with the noise of each row inflated by its residual."""
    noise = np.full(len(residual), _NOISE**2)
    for _ in range(_REWEIGHTINGS):
        weights: FloatArray = cho_solve(cho_factor(covariance + np.diag(noise)), residual)
        off = residual - covariance @ weights
        # Student's t as a Gaussian whose variance is reweighted by the row's residual.
        noise = _NOISE**2 * (_DEGREES_OF_FREEDOM + (off / _NOISE) ** 2) / (_DEGREES_OF_FREEDOM + 1)
    return weights
