"""Fit the time of a collective over sizes to the table of an nccl-tests log.

``time(S) = max(floor, alpha + S f / busbw)`` with S bytes of one rank's vector and f the
operation's factor between bus and algorithm bandwidth: the linear postal model (Hockney 1994),
above the time of the smallest messages.
"""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.provenance import stamp
from dpsim.collectives import OPERATIONS
from dpsim.hardware import CalibrationProfile, Measured, Parameter, Residuals
from dpsim.imports.nccl_tests import NcclTestsLog
from dpsim.imports.reading import ImportFileError

FORMULA = "time_s = max(floor, alpha + bytes * bus_factor(operation, ranks) / busbw)"
_SCALE = 0.1  # relative error above which a row counts as an outlier
_RESAMPLES = 200
_SEED = 0


def fit_nccl_tests(log: NcclTestsLog, name: str, file: str = "") -> CalibrationProfile:
    """Return the profile of ``log``: alpha and floor in s, busbw in B/s, with standard errors.

    Raises ImportFileError for too few sizes.

    Fitted to relative errors out of place (least squares, soft_l1); if the rows show no floor above
    alpha, floor is alpha. Standard errors are from 200 fits to resampled residuals.
    """
    sizes = np.array([row.bytes for row in log.rows], dtype=np.float64)
    times = np.array([row.time_s for row in log.rows])
    if len(np.unique(sizes)) < 4:
        raise ImportFileError(
            "the table must have at least 4 sizes to fit alpha, floor and busbw, but has "
            f"{len(np.unique(sizes))}"
        )
    moved = sizes * OPERATIONS[log.operation].bus_factor(log.ranks)
    if not moved.any():
        raise ImportFileError(
            f"{log.operation} of {log.ranks} rank moves nothing over a bus: at least 2 ranks are "
            "needed"
        )
    best = _best(moved, times)
    errors = _standard_errors(moved, times, best)
    return CalibrationProfile(
        name=name,
        kind="nccl-tests",
        formula=FORMULA,
        parameters={
            key: Parameter(value=value, unit=unit, standard_error=error)
            for key, value, unit, error in zip(
                ("alpha", "floor", "busbw"), _physical(best), ("s", "s", "B/s"), errors, strict=True
            )
        },
        measured=Measured(
            operation=log.operation,
            ranks=log.ranks,
            hosts=log.hosts,
            devices=log.devices,
            sizes_bytes=tuple(row.bytes for row in log.rows),
            times_s=tuple(row.time_s for row in log.rows),
            in_place_times_s=tuple(row.in_place_time_s for row in log.rows),
        ),
        residuals=Residuals.of(
            (_times(best, moved) - times) / times,
            "fitted rows",
            [row.bytes for row in log.rows],
        ),
        provenance={
            "file": file,
            "nccl": log.nccl_version,
            **stamp(),
        },
    )


def _times(parameters: FloatArray, moved: FloatArray) -> FloatArray:
    """Return the seconds for ``parameters``.

    They are ln of alpha in s, ln of s per byte moved, and with a floor ln of its height above
    alpha.
    """
    alpha, per_byte, *above = np.exp(parameters)
    return np.asarray(alpha + np.maximum(moved * per_byte, above[0] if above else 0.0))


def _physical(parameters: FloatArray) -> tuple[float, float, float]:
    """Return the parameters alpha and floor in s, busbw in B/s."""
    alpha, per_byte, *above = np.exp(parameters)
    return float(alpha), float(alpha + (above[0] if above else 0.0)), float(1 / per_byte)


def _best(moved: FloatArray, times: FloatArray) -> FloatArray:
    """Fit the line alone, or with a floor if that describes the rows better.

    Better is by the Bayesian information criterion (Schwarz 1978).
    """
    least, per_byte = float(times.min()), float(np.min(times / moved))
    # No row is faster than alpha, or than its bytes alone: neither can exceed the fastest row.
    line, line_cost = _fit(moved, times, [np.log([least, per_byte])])
    # The cost has a kink where the floor ends, and therefore several minima: tried from a low, a
    # middle and a high floor above alpha.
    starts = [np.log([least * part, per_byte, least * (1 - part)]) for part in (0.99, 0.5, 0.05)]
    floor, floor_cost = _fit(moved, times, starts)
    n = len(times)
    # A perfect fit has cost 0, which has no logarithm.
    gain = n * np.log(max(line_cost, 1e-300) / max(floor_cost, 1e-300))
    one_more_parameter = np.log(n)
    return floor if gain > one_more_parameter else line


def _fit(
    moved: FloatArray, times: FloatArray, starts: list[FloatArray]
) -> tuple[FloatArray, float]:
    """Return the parameters of the lowest cost from any of ``starts``, and that cost."""
    from scipy.optimize import least_squares

    def errors(parameters: FloatArray) -> FloatArray:
        return _times(parameters, moved) / times - 1

    def slopes(parameters: FloatArray) -> FloatArray:
        alpha, per_byte, *above = np.exp(parameters)
        # By logarithms each derivative is the term itself, where the maximum selects it.
        flat = moved * per_byte <= (above[0] if above else 0.0)
        columns = [
            np.full(len(moved), alpha),
            np.where(flat, 0.0, moved * per_byte),
            *(np.where(flat, height, 0.0) for height in above),
        ]
        return np.asarray(np.stack(columns, axis=1) / times[:, None])

    count = len(starts[0])
    # Logarithms keep everything above 0. Distant limits only keep the search from diverging if the
    # rows do not determine a part.
    low = np.log([times.min() * 1e-6, np.min(times / moved) * 1e-3, times.min() * 1e-9])[:count]
    high = np.log([times.max() * 2, np.max(times / moved) * 1e3, times.max() * 2])[:count]
    fits = [
        least_squares(
            errors,
            np.clip(start, low, high),
            slopes,
            bounds=(low, high),
            loss="soft_l1",
            f_scale=_SCALE,
        )
        for start in starts
    ]
    best = min(fits, key=lambda fit: float(fit.cost))
    return np.asarray(best.x), float(best.cost)


def _standard_errors(moved: FloatArray, times: FloatArray, best: FloatArray) -> list[float]:
    """Return the standard deviation of each parameter over repeated fits.

    Each fit is to the fitted times with resampled relative errors.
    """
    fitted = _times(best, moved)
    relative = times / fitted
    draws = np.random.default_rng(_SEED).integers(0, len(times), (_RESAMPLES, len(times)))
    resampled = []
    for draw in draws:
        # From the best fit only: resampled rows are near it, and one start is enough.
        refitted, _ = _fit(moved, fitted * relative[draw], [best])
        resampled.append(_physical(refitted))
    return [float(error) for error in np.array(resampled).std(axis=0, ddof=1)]
