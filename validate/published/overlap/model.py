"""The step time of an overlap policy on a cluster of cost alpha + beta n, one collective at a time.

    end_k = max(end_(k-1), ready_k) + a alpha + b beta bytes_k
    step  = whole + e + u (sum of all costs - e),   e = max(end - backward, 0)

a and b are how far the published alpha and beta are off, u the share of hidden communication that
computing pays for all the same (copies into merged buffers, hooks, GPU and CPU time of the
library). As published: a = b = 1, u = 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import FloatArray
from validate.published.overlap.rows import PolicyRow

_NOISE = 0.05  # spread of the logarithm of a measured step around a good prediction
_OFF = 1.0  # prior: spread of log a and log b
_SHARE, _SHARE_OFF = 0.3, 0.3  # prior: u and its spread, as in scaling/settings.yaml


@dataclass(frozen=True)
class Costs:
    """``a``, ``b`` and ``u`` of the formula above."""

    a: float = 1.0
    b: float = 1.0
    u: float = 0.0


def step_seconds(row: PolicyRow, costs: Costs) -> float:
    """Seconds of a step."""
    each = costs.a * row.alpha + costs.b * row.beta * row.nbytes
    # From the operation that the last one waited for on, all follow each other without a pause.
    and_all_after = np.cumsum(each[::-1])[::-1]
    end = (row.ready + and_all_after).max(initial=0.0)
    exposed = max(float(end) - row.backward, 0.0)
    hidden = max(each.sum() - exposed, 0.0)
    return float(row.whole + exposed + costs.u * hidden)


def fit(rows: Sequence[PolicyRow]) -> Costs:
    """The costs that fit the measured steps of ``rows`` best.

    Robustly and with weak priors; without rows, the priors' means.
    """
    from scipy.optimize import least_squares

    # ln a, ln b and u.
    def residuals(x: FloatArray) -> FloatArray:
        costs = _costs(x)
        errors = [np.log(step_seconds(row, costs) / row.measured) / _NOISE for row in rows]
        return np.array([*errors, x[0] / _OFF, x[1] / _OFF, (x[2] - _SHARE) / _SHARE_OFF])

    bounds = ([-5, -5, 0], [5, 5, 1])
    found = least_squares(residuals, [0.0, 0.0, _SHARE], loss="soft_l1", bounds=bounds)
    return _costs(found.x)


def _costs(x: FloatArray) -> Costs:
    return Costs(float(np.exp(x[0])), float(np.exp(x[1])), float(x[2]))
