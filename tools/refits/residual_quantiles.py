"""Quantiles of ln(measured / predicted), as the files of residuals keep them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from dpsim.base.arrays import FloatArray

QUANTILES = (0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95)


def residual_quantiles(residual: FloatArray, names: Sequence[str]) -> list[float]:
    """Quantiles over rows, of which those of one name count together as much as another's."""
    rows = Counter(names)
    weight = np.array([1 / rows[name] for name in names])
    order = np.argsort(residual, kind="stable")
    # A row stands in the middle of its own weight (Hazen's plotting positions).
    reached = (np.cumsum(weight[order]) - weight[order] / 2) / weight.sum()
    return [round(float(q), 4) for q in np.interp(QUANTILES, reached, residual[order])]
