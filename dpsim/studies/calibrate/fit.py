"""Fit step constants of a cluster to a few measured steps: maximum a posteriori, by the engine.

Each measured run is a scenario, whose step the engine predicts with trial constants. The fit
minimises the squares of ln(predicted / measured) and of the distances from the priors. The
posterior is approximated by a normal distribution of logarithms, from the curvature at the optimum.
Nearby runs share a part of their residuals (`dpsim.engine.known_residuals`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, RATE, TIME, human, plural
from dpsim.disturbance import TimedJob
from dpsim.engine import (
    Job,
    Prior,
    ResidualPrior,
    adjusted,
    corrected,
    known_covariance,
    link_loads,
    mean_step,
    prepare,
    priors_of,
    residual_prior,
    step_noise,
)
from dpsim.hardware import KnownRun, StepConstants
from dpsim.scenario import Scenario

NINETY_PERCENT = 1.645  # standard deviations of a normal distribution
_MOST_STEPS = 20  # of a disturbed run, in the fit
_EVALUATIONS = 15
_ROUNDING = 0.02  # of a measured step
_SHARES = ("overlap",)
_SOLE_EVIDENCE = 0.2  # a run's variance over that without it: below, it alone fixes a constant
_IDENTIFIED = 0.5  # the largest spread of an identified constant, over its prior's


@dataclass(frozen=True, slots=True)
class MeasuredRun:
    """A run as a scenario, and its measured step time (s).

    If measured, ``exposed`` is its exposed communication (s), ``steps`` its single steps and
    ``by_rank`` the times of each rank. A ``held_out`` run is not fitted.
    """

    scenario: Scenario
    step_time: float
    exposed: float | None = None
    steps: tuple[float, ...] = ()
    by_rank: TimedJob | None = None
    held_out: bool = False

    @property
    def place(self) -> KnownRun:
        """The nodes, GPUs per node and batch of the run."""
        return self.scenario.place


@dataclass(frozen=True)
class Fitted:
    """Fitted constants with their posterior, and their predictions of the runs.

    ``jobs``: of the ``runs``, without step constants. ``free``: priors of the fitted constants.
    ``at``, ``covariance``: the posterior, of logarithms or logits. ``residuals``: ln(measured /
    predicted) of the runs by the constants alone. ``slopes``: derivatives of the predictions'
    logarithms by ``at``. ``noise``: the unexplained spread of a run. ``shared``: the prior of the
    residual that nearby runs share.
    """

    runs: tuple[MeasuredRun, ...]
    jobs: tuple[Job, ...]
    fixed: tuple[Prior, ...]
    free: tuple[Prior, ...]
    at: FloatArray
    covariance: FloatArray
    residuals: FloatArray
    slopes: FloatArray
    noise: float
    shared: ResidualPrior

    @cached_property
    def constants(self) -> StepConstants:
        """The most likely constants."""
        return _constants(self.free, self.fixed, self.at)

    @cached_property
    def known(self) -> tuple[KnownRun, ...]:
        """The nodes, GPUs per node and batch of each run, with its residual."""
        pairs = zip(self.runs, self.residuals.tolist(), strict=True)
        return tuple(run.place.model_copy(update={"residual": left}) for run, left in pairs)

    @cached_property
    def _covariance_of_runs(self) -> FloatArray:
        """The covariance of the runs' residuals: shared residuals, and noise."""
        return known_covariance(self.known, self.shared)

    @cached_property
    def seconds(self) -> FloatArray:
        """The predicted steps (s) of the runs, corrected by the residuals of nearby runs."""
        return np.array([mean_step(adjusted(job, each)) for job, each in self._corrected])

    @property
    def exposed(self) -> list[float]:
        """The predicted exposed communication of the runs (s)."""
        pairs = zip(self._corrected, self.seconds.tolist(), strict=True)
        return [exposed_seconds(job, constants, step) for (job, constants), step in pairs]

    @cached_property
    def _corrected(self) -> list[tuple[Job, StepConstants]]:
        """Each run's job, and its constants, corrected by the residuals of nearby runs."""
        pairs = zip(self.jobs, self.known, strict=True)
        return [
            (job, corrected(self.constants, self.known, run, self.shared)) for job, run in pairs
        ]

    @property
    def _weights(self) -> FloatArray:
        """The residuals times the inverse of their covariance."""
        return np.asarray(np.linalg.solve(self._covariance_of_runs, self.residuals))

    @cached_property
    def _precision(self) -> FloatArray:
        """1 / the variance of each run's logarithm, if predicted from all other runs."""
        inverse = np.linalg.inv(self._covariance_of_runs)
        by_constants = self.slopes @ self.covariance @ self.slopes.T
        return np.asarray(np.diag(inverse - inverse @ by_constants @ inverse))

    @property
    def left_out(self) -> FloatArray:
        """ln(measured / predicted) of each run by a fit without it, linear around the posterior.

        NaN for a run that alone determines a constant.
        """
        own = np.diag(self._covariance_of_runs)
        return np.where(
            self._precision * own > _SOLE_EVIDENCE, self._weights / self._precision, np.nan
        )

    @property
    def intervals(self) -> list[tuple[float, float]]:
        """The 90 % interval of each run's step (s), by the posterior and the noise."""
        variances = 2 * self.noise**2 - self.noise**4 * self._precision
        width = np.exp(NINETY_PERCENT * np.sqrt(variances))
        return [(float(s / w), float(s * w)) for s, w in zip(self.seconds, width, strict=True)]

    def interval(self, index: int) -> tuple[float, float]:
        """Return the 90 % interval of a fitted constant."""
        prior, width = self.free[index], NINETY_PERCENT * self.covariance[index, index] ** 0.5
        low, high = self.at[index] - width, self.at[index] + width
        return _decode(prior.name, low), _decode(prior.name, high)

    def is_identified(self, index: int) -> bool:
        """Return whether the runs determine a constant much better than its prior."""
        return bool(self.covariance[index, index] ** 0.5 < _IDENTIFIED * self.free[index].spread)


def fit_constants(runs: Sequence[MeasuredRun]) -> Fitted:
    """Fit the constants to ``runs``. Raises DpsimError if there are none."""
    from scipy.optimize import least_squares

    if not runs:
        raise DpsimError("steps must have at least 1 measured run, but got none")
    priors = tuple(priors_of(runs[0].scenario))
    free = tuple(prior for prior in priors if prior.spread)
    fixed = tuple(prior for prior in priors if not prior.spread)
    jobs = tuple(prepare(_plain(run.scenario)) for run in runs)
    measured = np.log([run.step_time for run in runs])
    noise = step_noise()
    shared = residual_prior(runs[0].scenario)
    correlated = np.linalg.cholesky(known_covariance([run.place for run in runs], shared))
    centre = np.array([_encode(prior.name, prior.value) for prior in free])
    spread = np.array([prior.spread for prior in free])

    def logarithms(at: FloatArray) -> FloatArray:
        constants = _constants(free, fixed, at)
        return np.log([mean_step(adjusted(job, constants)) for job in jobs])

    def residuals(at: FloatArray) -> FloatArray:
        predicted = logarithms(at)
        constants = _constants(free, fixed, at)
        # Divide by the step instead of taking logarithms, because the exposed time may be 0.
        exposed = [
            (exposed_seconds(job, constants, step) - run.exposed) / run.step_time
            for run, job, step in zip(runs, jobs, np.exp(predicted), strict=True)
            if run.exposed is not None
        ]
        errors = np.linalg.solve(correlated, predicted - measured)
        exposed_errors = np.array(exposed) / noise
        return np.concatenate([errors, exposed_errors, (at - centre) / spread])

    solution = least_squares(
        residuals,
        centre,
        diff_step=np.full(len(centre), 1e-4),
        max_nfev=_EVALUATIONS,
        x_scale=spread,
    )
    jacobian = np.asarray(solution.jac, dtype=np.float64)
    slopes = correlated @ jacobian[: len(runs)]
    covariance = np.asarray(np.linalg.inv(jacobian.T @ jacobian))
    at = solution.x
    remaining = measured - logarithms(at)
    return Fitted(tuple(runs), jobs, fixed, free, at, covariance, remaining, slopes, noise, shared)


def links_too_slow(run: MeasuredRun, job: Job) -> str | None:
    """Return a sentence if the described links are too slow for the measured step, else None."""
    if len(job.calls_of) > 1:
        return None  # steps differ in what they send
    loads, capacities = link_loads(job).bytes, job.cluster.capacities
    seconds = loads / capacities
    link = int(seconds.argmax())
    if run.step_time > (1 - _ROUNDING) * seconds[link]:
        return None
    sent, rate = human(loads[link], DATA, 3), human(capacities[link], RATE, 3)
    place = run.place
    return "; ".join(
        (
            f"measured {human(run.step_time, TIME, 3)} on {plural(place.nodes, 'node')} with "
            f"{plural(place.gpus_per_node, 'GPU')}, but {sent} at the {rate} of "
            f"{job.cluster.link_name(link)} take {human(seconds[link], TIME, 3)}: set the network "
            "as fast as it is (cluster.network.nic)",
            *job.cluster.cautions,
        )
    )


def slopes_of(found: Fitted, scenario: Scenario) -> FloatArray:
    """Return the derivatives of another run's logarithm by the fitted constants."""
    job = prepare(_plain(scenario))

    def logarithm(at: FloatArray) -> float:
        return float(np.log(mean_step(adjusted(job, _constants(found.free, found.fixed, at)))))

    base, by = logarithm(found.at), []
    for index in range(len(found.at)):
        moved = found.at.copy()
        moved[index] += 1e-3
        by.append((logarithm(moved) - base) / 1e-3)
    return np.array(by)


def _plain(scenario: Scenario) -> Scenario:
    """Return the scenario without step constants, and with one step unless it is disturbed."""
    profile, run = scenario.profile, scenario.run
    tuned = scenario.cluster.model_copy(update={"condition": "tuned"})
    changes: dict[str, Any] = {"cluster": tuned}
    if profile is not None and profile.step is not None:
        changes["calibration"] = profile.model_copy(update={"step": None})
    few = _MOST_STEPS if scenario.disturbance.model_fields_set else 1
    if run.steps > few:
        changes["run"] = run.model_copy(update={"steps": few, "warmup": 0})
    return scenario.model_copy(update=changes)


def _constants(free: Sequence[Prior], fixed: Sequence[Prior], at: FloatArray) -> StepConstants:
    values = {prior.name: prior.value for prior in fixed}
    values |= {
        prior.name: _decode(prior.name, value) for prior, value in zip(free, at, strict=True)
    }
    return StepConstants(**values)


def _encode(name: str, value: float) -> float:
    return float(np.log(value / (1 - value)) if name in _SHARES else np.log(value))


def _decode(name: str, value: float) -> float:
    value = float(np.clip(value, -40, 40))
    # Trial values may exceed a constant's upper limit.
    most = next(
        each.le for each in StepConstants.model_fields[name].metadata if hasattr(each, "le")
    )
    return float(1 / (1 + np.exp(-value)) if name in _SHARES else min(np.exp(value), most))


def exposed_seconds(job: Job, constants: StepConstants, step: float) -> float:
    """Return the exposed communication (s) of ``job``, whose step takes ``step`` s.

    The delay of computing by concurrent communication is included.
    """
    computing = adjusted(job, constants.model_copy(update={"overlap": 1.0}))
    return step - max(times.step for times in computing.times)
