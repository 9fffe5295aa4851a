"""Fits a transport's parameters on measured collectives.

Robust least squares on relative errors, with bootstrap intervals.

Residuals are ln(predicted / measured median); small messages, whose times vary more, have less
weight, and soft_l1 limits that of outliers. Messages go in pieces, so predictions jump with the
bytes of a window and of a buffer and have no useful slope there: instead, all `TRIED` values of
these are tried before the others are fitted; both twice. The others are fitted as multiples of
their start values. In each bootstrap sample of cases, tried parameters take the values that are
best for it, and each fit of the others is one Gauss-Newton step from the fit, along its slopes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import count, product

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray
from dpsim.hardware import Parameter, Transport
from validate.calibrate.cases import CollectiveCase, predicted_s
from validate.calibrate.line import with_spread

LARGE = 256 * 1024  # bytes, from which a vector counts as large
_ERROR_LARGE, _ERROR_SMALL = 0.02, 0.1  # relative errors of equal weight
_RESAMPLES = 400
_SEED = 0
_SLOPE_STEP = 0.05  # of a parameter, for its slope
_PASSES = 2  # trying and fitting
_ROUNDS = 4  # per fit, at most

START: Mapping[str, tuple[float, str]] = {
    "latency": (50e-6, "s"),
    "overhead": (7e-6, "s"),
    "dispatch": (9e-6, "s"),
    "entry": (170e-6, "s"),
    "per_byte": (0.15e-9, "s/B"),
    "gamma": (0.15e-9, "s/B"),
    "header": (300.0, "B"),
    "stall": (0.001, "1"),
    "contention": (2e-12, "s/B"),
    "efficiency": (0.99, "1"),
}
"""The parameters that are fitted: where they start, and their units."""

TRIED: Mapping[str, tuple[float, ...]] = {
    "window": (90e3, 120e3, 150e3, 180e3, 220e3, 262144.0),
    "buffer": (0.0, 24e3, 48e3, 72e3, 96e3, 192e3),
}
"""The parameters that are tried, and their values in bytes."""

MOST_PREDICTIONS = _PASSES * (
    int(np.prod([len(values) for values in TRIED.values()]))
    + _ROUNDS * (len(START) + 1)
    + len(START)
)
"""How often a fit predicts all cases, at most."""

_LEAST_RATIO, _MOST_RATIO = 0.05, 8.0  # of fitted to start values

Values = Mapping[str, float]
Residuals = Callable[[Values], FloatArray]


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted parameters with standard errors and 95 % intervals, and the resulting transport.

    The known parameters make up the rest of the transport.
    """

    parameters: dict[str, Parameter]
    transport: Transport


@dataclass(frozen=True, slots=True)
class _Descent:
    """The result of least squares: the values, and the residuals there.

    ``slopes`` are those of the residuals along relative changes of the values.
    """

    values: dict[str, float]
    residuals: FloatArray
    slopes: FloatArray

    def spread(self, draws: Sequence[NDArray[np.int64]]) -> FloatArray:
        """Return the values (draw, parameter) fitted to each draw, by one step along the slopes."""
        robust = (1 + self.residuals**2) ** -0.25  # the square root of soft_l1's weight
        slopes = self.slopes * robust[:, None]
        short = -self.residuals * robust
        # Least squares stops near the best point, not at it, and the remaining step is not part
        # of the spread.
        base = np.linalg.lstsq(slopes, short, rcond=1e-6)[0]
        steps = [np.linalg.lstsq(slopes[draw], short[draw], rcond=1e-6)[0] for draw in draws]
        relative = np.maximum(1 + (np.array(steps) - base), 0.0)
        return np.asarray(relative * np.array(list(self.values.values())))


def fit(
    cases: Sequence[CollectiveCase],
    measured_s: Sequence[float],
    known: Values,
    *,
    done: Callable[[int], None] = lambda count: None,
) -> Fit:
    """Fit the parameters to the cases; ``known`` ones are not fitted.

    ``done`` is called with the number of times that all cases have been predicted, at most
    `MOST_PREDICTIONS`.
    """
    residuals = _residuals(cases, measured_s, done)
    names = [name for name in TRIED if name not in known]
    points = product(*(TRIED[name] for name in names))
    grid = [dict(zip(names, point, strict=True)) for point in points]
    values = {name: start for name, (start, _) in START.items() if name not in known}
    for _ in range(_PASSES if len(grid) > 1 else 1):
        # (points, cases): kept by case, since the bootstrap sums them over other draws of cases.
        found = np.array([residuals({**known, **values, **point}) for point in grid])
        costs = 2 * (np.sqrt(1 + found**2) - 1)  # soft_l1
        best = grid[int(costs.sum(axis=1).argmin())]
        descent = _descend(residuals, values, {**known, **best})
        values = descent.values

    # Fitted and tried parameters use the same draws.
    draws = list(np.random.default_rng(_SEED).integers(0, len(cases), (_RESAMPLES, len(cases))))
    parameters = {**_from_descent(descent, draws), **_from_grid(grid, costs, best, draws)}
    return Fit(parameters, Transport.model_validate({**known, **values, **best}))


def _residuals(
    cases: Sequence[CollectiveCase], measured_s: Sequence[float], done: Callable[[int], None]
) -> Residuals:
    """Return a function that predicts all cases with given values, and returns weighted errors."""
    logs = np.log(np.asarray(measured_s))
    typical = [_ERROR_LARGE if case.bytes >= LARGE else _ERROR_SMALL for case in cases]
    weights = 1 / np.array(typical)
    counted = count(1)

    def residuals(values: Values) -> FloatArray:
        transport = Transport.model_validate(dict(values))
        done(next(counted))
        predicted = np.log([predicted_s(case, transport) for case in cases])
        return np.asarray((predicted - logs) * weights)

    return residuals


def _descend(residuals: Residuals, start: Values, fixed: Values) -> _Descent:
    """Run least squares over the values of ``start``, from there."""
    from scipy.optimize import least_squares

    names = list(start)
    begin = np.array([START[name][0] for name in names])
    first = np.array([start[name] for name in names]) / begin
    # Efficiency itself is at most 1, since a link cannot carry more than its rate.
    most = {"efficiency": 1 / START["efficiency"][0]}
    high = np.array([most.get(name, _MOST_RATIO) for name in names])

    @cache  # slopes start where least squares has just been, and are needed again at the end
    def predicted(*values: float) -> FloatArray:
        return residuals({**fixed, **dict(zip(names, values, strict=True))})

    def at(multiples: FloatArray) -> FloatArray:
        # A copy, since least squares writes into the array.
        return predicted(*(begin * multiples).tolist()).copy()

    def slopes(multiples: FloatArray) -> FloatArray:
        here = at(multiples)
        # Downwards where a step up would leave the bounds.
        relative = np.where(multiples * (1 + _SLOPE_STEP) > high, -_SLOPE_STEP, _SLOPE_STEP)
        steps = np.diag(relative * multiples)
        # Each step moves one parameter, so that its sum is that move: (cases, parameters).
        return np.stack([(at(multiples + step) - here) / step.sum() for step in steps], axis=1)

    solution = least_squares(
        at,
        first,
        slopes,
        bounds=(_LEAST_RATIO, high),
        loss="soft_l1",
        max_nfev=_ROUNDS,
        xtol=1e-3,
        ftol=1e-3,
        x_scale=first,
    )

    # The bootstrap needs slopes along relative changes instead of along the multiples.
    values = dict(zip(names, (begin * solution.x).tolist(), strict=True))
    return _Descent(values, at(solution.x), slopes(solution.x) * solution.x)


def _from_descent(descent: _Descent, draws: Sequence[NDArray[np.int64]]) -> dict[str, Parameter]:
    spread = descent.spread(draws)
    parameters = {}
    for which, (name, value) in enumerate(descent.values.items()):
        unit = START[name][1]
        # A parameter that changes no prediction has no error either.
        if np.any(descent.slopes[:, which]):
            parameters[name] = with_spread(value, unit, spread[:, which])
        else:
            parameters[name] = Parameter(value=value, unit=unit)
    return parameters


def _from_grid(
    grid: Sequence[Values], costs: FloatArray, best: Values, draws: Sequence[NDArray[np.int64]]
) -> dict[str, Parameter]:
    """Return the tried parameters; ``costs`` are (grid point, case)."""
    chosen = [grid[int(costs[:, draw].sum(axis=1).argmin())] for draw in draws]
    return {
        name: with_spread(value, "B", np.array([one[name] for one in chosen]))
        for name, value in best.items()
    }
