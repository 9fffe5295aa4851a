"""The error of calibrated curves if all other sizes of each were known: an oracle.

A calibration knows every fourth size, which is less informative than all neighbours of a size.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from dpsim.base.arrays import FloatArray
from validate.published.nccl.scores import Score

# Octaves within which neighbours inform about a size, and the weight of a zero residual. Of twelve
# pairs these have the least error: an oracle may be tuned on its own results.
_WIDTH, _NOTHING = 1.0, 0.1


def by_other_sizes(scores: Sequence[Score]) -> list[Score]:
    """Correct each counted row by the residuals of all other sizes of its curve.

        ln factor = sum_k w_k r_k / (sum_k w_k + nothing),   w_k = exp(-(octaves / width)^2 / 2)

    with r_k = ln(measured / predicted) of size k, the mean of its rows.
    """
    curves: dict[int, list[Score]] = defaultdict(list)
    for score in scores:
        curves[id(score.case)].append(score)
    corrected = []
    for curve in curves.values():
        sizes, logs = _left(curve)
        for score in curve:
            if score.counts:
                factor = np.exp(_from_others(score.nbytes, sizes, logs))
                corrected.append(replace(score, predicted=float(score.predicted * factor)))
    return corrected


def _left(curve: Sequence[Score]) -> tuple[FloatArray, FloatArray]:
    """Return the sizes of a curve, and ln(measured / predicted) of each."""
    rows = np.array([row.nbytes for row in curve])
    logs = np.array([np.log(row.measured / row.predicted) for row in curve])
    sizes = np.unique(rows)
    return sizes, np.array([logs[rows == size].mean() for size in sizes])


def _from_others(nbytes: float, sizes: FloatArray, logs: FloatArray) -> float:
    """Return the weighted mean of the residuals of the other sizes."""
    octaves = np.log2(sizes / nbytes)
    weights = np.where(octaves == 0, 0.0, np.exp(-((octaves / _WIDTH) ** 2) / 2))
    return float(weights @ logs / (weights.sum() + _NOTHING))
