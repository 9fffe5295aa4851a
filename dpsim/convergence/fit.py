"""Fits `StepLaw` to runs with several batches, with errors, and says how well batches that were
left out are predicted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.convergence.law import StepLaw

# Where the loss turns from squares to absolute values: runs that only differ by their seed differ
# about so much.
_SIGMA = 0.1
_NOISE_SPREAD = math.log(
    3
)  # published pairs of B_crit and B_noise of one task differ by a factor of 1.5 to 8
_VAGUE_SPREAD = math.log(30)
_STARTS = (0.1, 1.0, 10.0, 1000.0)  # of the largest batch: the cost can have two minima
_LEAST_RUNS_FOR_NOISE = 3


def fit_law(
    batches: Sequence[float], steps: Sequence[float], noise_scale: float | None = None
) -> StepLaw:
    """The law through measured (batch, steps to target) of one task.

    Least absolute deviations of ln S beyond 10 %, squares below (soft L1), since one run in a few
    is off by an evaluation period or an unlucky seed. B_crit has a prior: ``noise_scale``, the
    gradients' noise scale measured in the same runs, times or over 3; without it ten times the
    largest batch, times or over 30. One run is enough, and then the prior is all that is known
    about B_crit. Raises DpsimError for no runs, for lists of different lengths, and for numbers
    that are not above 0.
    """
    from scipy.optimize import least_squares

    batch, measured = _checked(batches, steps)
    prior = math.log(noise_scale) if noise_scale is not None else math.log(10 * float(batch.max()))
    spread = _VAGUE_SPREAD if noise_scale is None else _NOISE_SPREAD

    def residuals(x: FloatArray) -> FloatArray:
        raw = (x[0] - np.log(batch) + np.log1p(batch * np.exp(-x[1])) - np.log(measured)) / _SIGMA
        return np.append(
            np.sign(raw) * np.sqrt(2 * (np.sqrt(1 + raw**2) - 1)), (x[1] - prior) / spread
        )

    least = math.log(float((batch * measured).min()))
    starts = [(least, math.log(factor * float(batch.max()))) for factor in _STARTS]
    found = min(
        (least_squares(residuals, start) for start in (*starts, (least, prior))),
        key=lambda solution: solution.cost,
    )
    return _law(batch, measured, found.x, np.asarray(found.jac, dtype=np.float64))


def left_out_errors(
    batches: Sequence[float], steps: Sequence[float], noise_scales: Sequence[float] | None = None
) -> FloatArray:
    """Relative error (predicted / measured - 1) of each run, predicted by a law fitted without its
    batch.

    ``noise_scales`` are each run's own; a run that is left out keeps its own to itself. Raises
    DpsimError for fewer than two runs.
    """
    if len(batches) < 2:
        raise DpsimError(
            f"batches must be at least 2, so that one can be left out, but got {len(batches)}"
        )
    errors = []
    for out in range(len(batches)):
        kept = [index for index in range(len(batches)) if batches[index] != batches[out]]
        noise = (
            None
            if noise_scales is None
            else float(np.median([noise_scales[index] for index in kept]))
        )
        law = fit_law([batches[index] for index in kept], [steps[index] for index in kept], noise)
        errors.append(law.steps(batches[out]) / steps[out] - 1)
    return np.array(errors)


def _checked(batches: Sequence[float], steps: Sequence[float]) -> tuple[FloatArray, FloatArray]:
    batch, measured = np.asarray(batches, dtype=np.float64), np.asarray(steps, dtype=np.float64)
    if len(batch) != len(measured) or not len(batch):
        raise DpsimError(
            f"batches and steps must be as many, and at least 1, but got {len(batch)} and "
            f"{len(measured)}"
        )
    if not (np.all(batch > 0) and np.all(measured > 0)):
        raise DpsimError("batches and steps must be above 0, but some are not")
    return batch, measured


def _law(batch: FloatArray, measured: FloatArray, x: FloatArray, jacobian: FloatArray) -> StepLaw:
    """The law with errors from the curvature at the optimum, and the spread of the runs about it
    (root mean square).
    """
    covariance = np.linalg.pinv(jacobian.T @ jacobian)
    own, other = np.sqrt(np.diag(covariance))
    left = x[0] - np.log(batch) + np.log1p(batch * np.exp(-x[1])) - np.log(measured)
    enough = len(batch) >= _LEAST_RUNS_FOR_NOISE
    noise = float(np.sqrt(np.mean(left**2) * len(batch) / (len(batch) - 2))) if enough else _SIGMA
    correlation = float(covariance[0, 1] / (own * other))
    return StepLaw(
        float(np.exp(x[0])), float(np.exp(x[1])), float(own), float(other), correlation, noise
    )
