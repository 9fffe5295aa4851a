"""The residuals of held-out rows, as quantiles for the files of residuals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.uncertainty import LEAST_HALF_WIDTH, LEVELS, Spread

_DIGITS = 4


_SHARES = np.linspace(0, 1, 41)


def spread_of(
    residual: FloatArray, names: Sequence[str], *, even: bool = False, shortest: bool = False
) -> Spread:
    """Return how far ln(measured / predicted) reaches below and above 0, for each of LEVELS.

    Split conformal: quantiles of left-out rows, where rows of one name are correlated. A name's
    weight therefore grows with the root of its rows, and n names leave each tail 1 - 1 / n of what
    n independent rows would: fewer names give wider tails. ``even``: both arms are equal, where
    software and hosts may be faster or slower than the observed ones. ``shortest``: the last level
    is the shortest interval instead of the one with equal tails, where errors have one long tail,
    as machines may be far slower than their links promise and hardly faster. Since its place is
    fitted too, it leaves 1 - 2 / n.
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
        moves = shortest and level == LEVELS[-1]
        outside = (1 - level) * (1 - (2 if moves else 1) / len(rows))
        # The share of them that lies below the interval.
        share = _SHARES if moves else np.array([0.5])
        ends = outside * share, 1 - outside + outside * share
        lows, highs = (np.interp(end, reached, residual[order]) for end in ends)
        narrowest = int(np.argmin(highs - lows))
        below, above = max(-float(lows[narrowest]), 0.0), max(float(highs[narrowest]), 0.0)
        arms[0].append(round(max(below, LEAST_HALF_WIDTH * above), _DIGITS))
        arms[1].append(round(max(above, LEAST_HALF_WIDTH * below), _DIGITS))
    # No level reaches less far than one below it.
    return [np.maximum.accumulate(arm).tolist() for arm in arms]
