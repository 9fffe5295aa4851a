"""Correct predictions by the residuals of nearby measured runs.

Similar runs of a cluster deviate from the model similarly. ln(measured / predicted) after the fit
of step constants is therefore taken to be a Gaussian process over doublings of nodes, of GPUs per
node and of the batch: runs at a distance of d doublings have the covariance

    s^2 exp(-d^2 / 2 l^2),

and each measurement has independent noise in addition. The process's mean at a run, given the
residuals of the known runs, corrects the prediction there, and fades with distance. Source: the
discrepancy of a computer model, Kennedy and O'Hagan 2001, doi:10.1111/1467-9868.00294.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.engine.step_priors import ResidualPrior, step_noise
from dpsim.hardware import KnownRun, StepConstants

# Constants to which a step is proportional, apart from latencies.
_PROPORTIONAL = ("compute", "host", "inside", "between")


def known_covariance(runs: Sequence[KnownRun], prior: ResidualPrior) -> FloatArray:
    """Return the covariance of the runs' residuals, with measurement noise."""
    return _shared(runs, runs, prior) + step_noise() ** 2 * np.eye(len(runs))


def corrected(
    step: StepConstants, known: Sequence[KnownRun], here: KnownRun, prior: ResidualPrior
) -> StepConstants:
    """Return the constants for the run ``here``, corrected by the residuals of ``known`` runs."""
    residuals = np.array([run.residual for run in known])
    if not residuals.any():
        return step
    weights = np.linalg.solve(known_covariance(known, prior), residuals)
    factor = float(np.exp(_shared([here], known, prior)[0] @ weights))
    return step.model_copy(update={each: factor * getattr(step, each) for each in _PROPORTIONAL})


def left_out_error(known: Sequence[KnownRun], prior: ResidualPrior) -> float:
    """Return the root mean square error of each known residual, predicted from the others.

    Leave-one-out by Rasmussen and Williams 2006, section 5.4.2.
    """
    inverse = np.linalg.inv(known_covariance(known, prior))
    errors = inverse @ [run.residual for run in known] / inverse.diagonal()
    return float((errors**2).mean() ** 0.5)


def _shared(
    runs: Sequence[KnownRun], others: Sequence[KnownRun], prior: ResidualPrior
) -> FloatArray:
    """Return the covariance of the runs' residuals without noise, shape (runs, others)."""
    doublings = np.array([[run.doublings_from(other) for other in others] for run in runs])
    squares = (doublings**2).sum(axis=2) / prior.doublings**2
    return np.asarray(prior.spread**2 * np.exp(-squares / 2))
