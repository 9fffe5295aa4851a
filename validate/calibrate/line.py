"""Straight lines through measured times, T = constant + slope x amount.

They are fitted robustly, with the spread from resampled repetitions.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.hardware import Parameter

RESAMPLES = 200
_OUTLIER_ERROR = 0.02  # the relative error above which a row has less weight
_SEED = 0


def fit_lines(amounts: FloatArray, times_s: Sequence[Sequence[float]]) -> FloatArray:
    """Return (constant, slope) of the fit, then of `RESAMPLES` fits to resampled repetitions.

    Both are at least 0. ``times_s`` are the repetitions of each amount, whose medians are fitted by
    soft_l1 on relative errors.
    """
    return np.array([_line(amounts, medians) for medians in bootstrap_medians(times_s)])


def bootstrap_medians(times_s: Sequence[Sequence[float]]) -> list[FloatArray]:
    """Return the medians of each row's repetitions, then those of `RESAMPLES` bootstrap samples.

    A sample has as many repetitions of a row as were measured, drawn with replacement.
    """
    generator = np.random.default_rng(_SEED)
    rows = [np.asarray(row) for row in times_s]
    redrawn = [
        np.array([np.median(generator.choice(row, len(row))) for row in rows])
        for _ in range(RESAMPLES)
    ]
    return [np.array([np.median(row) for row in rows]), *redrawn]


def parameter(draws: FloatArray, unit: str) -> Parameter:
    """Return a parameter: its value is ``draws[0]``, error and interval come from the rest."""
    return with_spread(float(draws[0]), unit, draws[1:])


def with_spread(value: float, unit: str, draws: FloatArray) -> Parameter:
    """Return a value with the standard error and the 95 % interval of ``draws``."""
    low, high = np.percentile(draws, [2.5, 97.5])
    return Parameter(
        value=value,
        unit=unit,
        standard_error=float(draws.std(ddof=1)),
        low=float(low),
        high=float(high),
    )


def _line(amounts: FloatArray, seconds: FloatArray) -> tuple[float, float]:
    from scipy.optimize import least_squares

    scale = float(np.ptp(seconds) / np.ptp(amounts)) or 1.0

    # Fit constant and slope as multiples, so that the solver sees numbers of similar size.
    def off(multiples: FloatArray) -> FloatArray:
        constant, slope = multiples
        predicted = constant * seconds.min() + slope * scale * amounts
        return np.asarray(predicted / seconds - 1) / _OUTLIER_ERROR

    # The constant is at most the shortest measured time, as the rest of a time is never negative.
    bounds = ([0.0, 0.0], [1.0, np.inf])
    constant, slope = least_squares(off, [0.5, 1.0], bounds=bounds, loss="soft_l1").x
    return float(constant * seconds.min()), float(slope * scale)
