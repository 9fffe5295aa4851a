"""The job of a scenario, its compute times scaled to what was measured.

The factor is given, or found by Brent's method.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cache

from dpsim.base.errors import DpsimError
from dpsim.engine.job import Job
from dpsim.engine.kernel import mean_step
from dpsim.engine.preparation import prepare
from dpsim.engine.run_length import check_length
from dpsim.scenario import ScaledCompute, Scenario
from dpsim.workload import Model

_LEAST_SCALE, _MOST_SCALE = 1e-6, 1e6


_prepare: ContextVar[Callable[[Scenario], Job] | None] = ContextVar("prepares jobs", default=None)


@contextmanager
def prepared_by(other: Callable[[Scenario], Job]) -> Iterator[None]:
    """Let jobs inside be prepared by another than `prepare`: one that keeps them, say."""
    token = _prepare.set(other)
    try:
        yield
    finally:
        _prepare.reset(token)


def calibrated(scenario: Scenario, model: Model | None = None) -> Job:
    """The job of ``scenario``, its compute times scaled where the calibration says so.

    Raises DpsimError as `prepare` does, and where no scale gives a measured step.
    """
    other = _prepare.get()
    job = other(scenario) if other else prepare(scenario, model=model)
    scaling = scenario.scaling
    if scaling is None:
        return job
    return job.scaled(scale_of(job, scaling))


def scale_of(job: Job, calibration: ScaledCompute) -> float:
    """The factor on compute times that ``calibration`` says, or the one that gives what it says.

    Raises DpsimError where none gives the measured step.
    """
    computed = max(times.step for times in job.times)
    return calibration.factor(
        computed, lambda nodes, step_time: scale_to(_on_nodes(job, nodes), step_time)
    )


def fitted_factor(job: Job) -> dict[str, object] | None:
    """The factor on compute times that was fitted to a measured step, as a calibration.

    None where none was fitted. What differs from ``job`` in hardware, batch or strategy would not
    have taken the measured step, but the factor holds.
    """
    source = job.scenario.fitted_to
    if source is None:
        return None
    return {
        "compute_scale": job.compute_scale,
        "cell": job.scenario.cell,
        "source": f"fitted to {source}",
        "known": [run.model_dump() for run in job.scenario.known_runs],
    }


def _on_nodes(job: Job, nodes: int) -> Job:
    """The job on that many nodes: itself, where those are its own."""
    cluster = job.scenario.cluster.with_nodes(nodes)
    if cluster == job.scenario.cluster:
        return job
    there = job.scenario.model_copy(update={"cluster": cluster})
    check_length(there)
    return prepare(there)


def scale_to(job: Job, step_time: float) -> float:
    """The factor on compute times with which ``job`` takes ``step_time`` s.

    Found by Brent's method over the factor's logarithm: it may lie orders of magnitude from 1.
    Raises DpsimError where communication alone takes longer than that, or the step a million times
    as long as the model computes.
    """
    from scipy.optimize import brentq

    @cache  # Brent's method asks for the ends again
    def excess(log_scale: float) -> float:
        return mean_step(job.scaled(math.exp(log_scale))) - step_time

    # A step grows with the scale, so that the ends tell whether one between them will do.
    low, high = math.log(_LEAST_SCALE), math.log(_MOST_SCALE)
    if excess(high) < 0:
        raise DpsimError(
            f"calibration.step_time must be at most {excess(high) + step_time:.4g} s, "
            f"which is {_MOST_SCALE:,.0f} times the model's own compute time, but got "
            f"{step_time:.4g} s"
        )
    if excess(low) > 0:
        nodes = job.scenario.cluster.nodes
        raise DpsimError(
            "calibration.step_time must be longer than communication alone "
            f"({excess(low) + step_time:.4g} s on {nodes} nodes), but got {step_time:.4g} s"
        )
    # Of a logarithm: an absolute tolerance is a relative one of the scale.
    return math.exp(brentq(excess, low, high, xtol=1e-9, rtol=1e-9))
