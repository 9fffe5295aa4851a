"""Fits a transport's parameters on measured collectives: robust least squares on relative errors, with bootstrap intervals.

Residuals are ln(predicted / measured median), of small messages with less weight, whose times vary more; soft_l1 keeps outliers
from ruling. Parameters are fitted as multiples of where they start. Each of the bootstrap's fits to resampled cases is one
Gauss-Newton step from the fit, along its slopes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsim.calibration import Parameter, Transport
from validate.calibrate.cases import CollectiveCase
from validate.calibrate.predict import predicted_s

FloatArray = NDArray[np.float64]

LARGE = 256 * 1024  # bytes, from which a vector counts as large
_ERROR_LARGE, _ERROR_SMALL = 0.02, 0.1  # relative errors that weigh alike
_RESAMPLES = 400
_SEED = 0
_STEP = 0.05  # of a parameter, for its slope; of
_COARSE = {"window": 0.2, "buffer": 0.2}  # these more, since messages go in pieces

START: Mapping[str, tuple[float, str]] = {
    "latency": (40e-6, "s"),
    "overhead": (8e-6, "s"),
    "dispatch": (13e-6, "s"),
    "entry": (180e-6, "s"),
    "per_byte": (0.2e-9, "s/B"),
    "gamma": (0.15e-9, "s/B"),
    "header": (350.0, "B"),
    "window": (120e3, "B"),
    "buffer": (48e3, "B"),
    "stall": (0.002, "1"),
    "contention": (9e-12, "s/B"),
    "efficiency": (0.99, "1"),
}
"""The parameters that are fitted: where they start, and their units."""

_LOW, _HIGH = 0.05, 8.0  # of where they start


@dataclass(frozen=True, slots=True)
class Fit:
    """Fitted parameters with standard errors and 95 % intervals, and the transport that they make with what is known."""

    parameters: dict[str, Parameter]
    transport: Transport


def fit(
    cases: Sequence[CollectiveCase],
    measured_s: Sequence[float],
    known: Mapping[str, float],
    *,
    most: int = 5,
    done: Callable[[int], None] = lambda count: None,
) -> Fit:
    """The parameters with which cases are predicted best; ``known`` ones are not fitted. ``most`` rounds; ``done`` counts them."""
    from scipy.optimize import least_squares

    names = [name for name in START if name not in known]
    starts = np.array([START[name][0] for name in names])
    weights = np.array([1 / (_ERROR_LARGE if case.bytes >= LARGE else _ERROR_SMALL) for case in cases])
    logs = np.log(np.asarray(measured_s))
    rounds: list[FloatArray] = []  # the slopes of each

    def residuals(multiples: FloatArray) -> FloatArray:
        transport = _transport(names, starts * multiples, known)
        return np.asarray((np.log([predicted_s(case, transport) for case in cases]) - logs) * weights)

    def slopes(multiples: FloatArray) -> FloatArray:
        here = residuals(multiples)
        part = np.array([_COARSE.get(name, _STEP) for name in names])
        steps = np.diag(np.where(multiples * (1 + part) > high, -part, part) * multiples)
        rounds.append(np.stack([(residuals(multiples + step) - here) / step.sum() for step in steps], axis=1))
        done(len(rounds))
        return rounds[-1]

    high = np.array([1 / START[name][0] if name == "efficiency" else _HIGH for name in names])
    found = least_squares(
        residuals,
        np.ones(len(names)),
        slopes,
        bounds=(_LOW, high),
        loss="soft_l1",
        max_nfev=most,
        xtol=1e-3,
        ftol=1e-3,
    )
    spread = np.maximum(found.x + _bootstrap(rounds[-1], found.fun), 0.0) * starts
    told = np.asarray(rounds[-1] != 0).sum(axis=0) > 0  # a parameter that changes no prediction has no error either
    parameters = {
        name: _parameter(float(starts[which] * found.x[which]), START[name][1], spread[:, which] if told[which] else None)
        for which, name in enumerate(names)
    }
    return Fit(parameters, _transport(names, starts * found.x, known))


def _parameter(value: float, unit: str, spread: FloatArray | None) -> Parameter:
    if spread is None:
        return Parameter(value=value, unit=unit)
    low, high = np.percentile(spread, [2.5, 97.5])
    return Parameter(value=value, unit=unit, standard_error=float(spread.std(ddof=1)), low=float(low), high=float(high))


def _transport(names: Sequence[str], values: FloatArray, known: Mapping[str, float]) -> Transport:
    return Transport.model_validate({**known, **dict(zip(names, values.tolist(), strict=True))})


def _bootstrap(slopes: FloatArray, residuals: FloatArray) -> FloatArray:
    """Changes of the parameters over fits to cases that are drawn with replacement, a step along the slopes each."""
    generator = np.random.default_rng(_SEED)
    robust = (1 + residuals**2) ** -0.25  # the square root of soft_l1's weight
    weighted, short = slopes * robust[:, None], residuals * robust
    base = np.linalg.lstsq(weighted, -short, rcond=1e-6)[0]
    draws = []
    for _ in range(_RESAMPLES):
        chosen = generator.integers(0, len(residuals), len(residuals))
        draws.append(np.linalg.lstsq(weighted[chosen], -short[chosen], rcond=1e-6)[0] - base)
    return np.array(draws)
