"""Fit `StepLaw` to runs with several batches, and estimate its errors.

Leave-one-batch-out errors show how well it predicts batches that it was not fitted to.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.convergence.law import StepLaw

# Deviation at which the loss turns from squared to absolute: about that of runs that differ only by
# their seed.
_SIGMA = 0.1

# Published pairs of B_crit and B_noise of one task differ by a factor of 1.5 to 8.
_NOISE_SPREAD = math.log(3)
_WIDE_SPREAD = math.log(30)

_STARTS = (
    0.1,
    1.0,
    10.0,
    1000.0,
)  # of the largest batch: the cost can have two minima
_LEAST_RUNS_FOR_NOISE = 3


def fit_law(
    batches: Sequence[float], steps: Sequence[float], noise_scale: float | None = None
) -> StepLaw:
    """Fit the law to measured (batch, steps to target) pairs of one task.

    The loss of ln S is soft L1 (squared below 10 %, absolute above), because a few runs are off by
    an evaluation period or an unlucky seed. B_crit has a prior: ``noise_scale``, the gradients'
    noise scale measured in the same runs, times or over 3; without it ten times the largest batch,
    times or over 30. One run is enough; B_crit is then the prior alone. Raises DpsimError for no
    runs, for lists of different lengths, and for numbers that are not above 0.
    """
    from scipy.optimize import least_squares

    batch, measured = _checked(batches, steps)
    largest = float(batch.max())
    if noise_scale is None:
        prior, spread = math.log(10 * largest), _WIDE_SPREAD
    else:
        prior, spread = math.log(noise_scale), _NOISE_SPREAD

    def residuals(x: FloatArray) -> FloatArray:
        deviations = _log_deviations(batch, measured, x) / _SIGMA
        # Half the sum of their squares is the sum of the losses sqrt(1 + deviation^2) - 1.
        soft = np.sign(deviations) * np.sqrt(2 * (np.sqrt(1 + deviations**2) - 1))
        # The normal prior on ln B_crit is one more residual, with a squared loss.
        return np.append(soft, (x[1] - prior) / spread)

    # The least samples of any run, a start for E_min.
    least = math.log(float((batch * measured).min()))
    starts = [(least, math.log(factor * largest)) for factor in _STARTS]
    starts.append((least, prior))
    solutions = [least_squares(residuals, start) for start in starts]
    best = min(solutions, key=lambda solution: solution.cost)
    return _law(batch, measured, best.x, np.asarray(best.jac, dtype=np.float64))


def _log_deviations(batch: FloatArray, measured: FloatArray, x: FloatArray) -> FloatArray:
    """Return ln S(B) of the law less ln of the measured steps; x is ln E_min and ln B_crit."""
    return np.asarray(x[0] - np.log(batch) + np.log1p(batch * np.exp(-x[1])) - np.log(measured))


def left_out_errors(
    batches: Sequence[float], steps: Sequence[float], noise_scales: Sequence[float] | None = None
) -> FloatArray:
    """Return the relative error of each run, predicted by a law fitted without its batch.

    The error is predicted / measured - 1. ``noise_scales`` has one value per run, which is not used
    if the run is left out. Raises DpsimError for fewer than two runs.
    """
    if len(batches) < 2:
        raise DpsimError(
            f"batches must be at least 2, so that one can be left out, but got {len(batches)}"
        )
    errors = []
    for left_out, batch in enumerate(batches):
        # Repeats with other seeds would reveal the answer, so they are left out too.
        kept = [index for index in range(len(batches)) if batches[index] != batch]
        noise = None
        if noise_scales is not None:
            noise = float(np.median([noise_scales[index] for index in kept]))
        kept_batches = [batches[index] for index in kept]
        kept_steps = [steps[index] for index in kept]
        law = fit_law(kept_batches, kept_steps, noise)
        errors.append(law.steps(batch) / steps[left_out] - 1)
    return np.array(errors)


def _checked(batches: Sequence[float], steps: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    batch = np.asarray(batches, dtype=np.float64)
    measured = np.asarray(steps, dtype=np.float64)
    if len(batch) != len(measured) or not len(batch):
        raise DpsimError(
            f"batches and steps must be as many, and at least 1, but got {len(batch)} and "
            f"{len(measured)}"
        )
    if not (np.all(batch > 0) and np.all(measured > 0)):
        raise DpsimError("batches and steps must be above 0, but some are not")
    return batch, measured


def _law(batch: FloatArray, measured: FloatArray, x: FloatArray, jacobian: FloatArray) -> StepLaw:
    """Return the law at the optimum ``x``, with errors from the curvature there.

    The law's noise is the root mean square deviation of the runs from it.
    """
    # Residuals are already divided by their standard deviations, so this needs no scale.
    covariance = np.linalg.pinv(jacobian.T @ jacobian)
    samples_error, batch_error = np.sqrt(np.diag(covariance))
    correlation = float(covariance[0, 1] / (samples_error * batch_error))
    noise = _SIGMA
    runs = len(batch)
    if runs >= _LEAST_RUNS_FOR_NOISE:
        deviations = _log_deviations(batch, measured, x)
        # The fit used two degrees of freedom.
        noise = float(np.sqrt(np.mean(deviations**2) * runs / (runs - 2)))
    return StepLaw(
        least_samples=float(np.exp(x[0])),
        critical_batch=float(np.exp(x[1])),
        least_samples_error=float(samples_error),
        critical_batch_error=float(batch_error),
        correlation=correlation,
        noise=noise,
    )
