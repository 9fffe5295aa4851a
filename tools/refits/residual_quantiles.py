"""The residuals of held-out rows, as quantiles for the files of residuals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.doubt import LEAST_ARM, LEVELS, Spread

_DIGITS = 4


def spread_of(residual: FloatArray, names: Sequence[str], *, even: bool = False) -> Spread:
    """Return how far ln(measured / predicted) reaches below and above 0, for each of LEVELS.

    Split conformal: quantiles of left-out rows, where rows of one name are correlated. So a name's
    weight grows with the root of its rows, and n names leave each tail 1 - 1 / n of what n
    independent rows would: fewer names give wider tails. ``even``: both arms are equal, where
    software and hosts may be faster or slower than the observed ones.
    """
    rows = Counter(names)
    weight = np.array([rows[name] ** -0.5 for name in names])
    if even:
        residual, weight = np.concatenate([residual, -residual]), np.tile(weight, 2)
    order = np.argsort(residual, kind="stable")
    # Each row is placed in the middle of its own weight (Hazen's plotting positions).
    reached = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
    arms: list[list[float]] = [[], []]
    for level in LEVELS:
        tail = (1 - level) / 2 * (1 - 1 / len(rows))
        low, high = np.interp((tail, 1 - tail), reached, residual[order])
        below, above = max(-float(low), 0.0), max(float(high), 0.0)
        arms[0].append(round(max(below, LEAST_ARM * above), _DIGITS))
        arms[1].append(round(max(above, LEAST_ARM * below), _DIGITS))
    return arms
