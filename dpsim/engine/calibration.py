"""Jobs with compute times scaled to a measurement.

The scale factor is given, or found by Brent's method.
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
    """Prepare jobs by ``other``, for example a cache, instead of `prepare` inside the context."""
    token = _prepare.set(other)
    try:
        yield
    finally:
        _prepare.reset(token)


def calibrated(scenario: Scenario, model: Model | None = None) -> Job:
    """Return the job of ``scenario``, with compute times scaled as its calibration asks.

    Raises DpsimError as `prepare` does, and if no scale gives the measured step.
    """
    other = _prepare.get()
    job = other(scenario) if other else prepare(scenario, model=model)
    scaling = scenario.scaling
    if scaling is None:
        return job
    return job.scaled(scale_of(job, scaling))


def scale_of(job: Job, calibration: ScaledCompute) -> float:
    """Return the factor on compute times that ``calibration`` gives or that fits its measurement.

    Raises DpsimError if no factor gives the measured step.
    """
    computed = max(times.step for times in job.times)
    return calibration.factor(
        computed, lambda nodes, step_time: scale_to(_on_nodes(job, nodes), step_time)
    )


def fitted_factor(job: Job) -> dict[str, object] | None:
    """Return the compute factor that was fitted to a measured step, as a calibration.

    Returns None if none was fitted. A scenario with other hardware, batch or strategy than ``job``
    can reuse the factor, although it would not take the measured step time.
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
    """Return the job on ``nodes`` nodes, or the job itself if it has as many."""
    cluster = job.scenario.cluster.with_nodes(nodes)
    if cluster == job.scenario.cluster:
        return job
    resized = job.scenario.model_copy(update={"cluster": cluster})
    check_length(resized)
    return prepare(resized)


def scale_to(job: Job, step_time: float) -> float:
    """Return the factor on compute times with which ``job`` takes ``step_time`` s.

    Found by Brent's method over the factor's logarithm: it may lie orders of magnitude from 1.
    Raises DpsimError if communication alone takes longer than ``step_time``, or ``step_time`` is
    over a million times the model's compute time.
    """
    from scipy.optimize import brentq

    @cache  # Brent's method evaluates the ends again
    def excess(log_scale: float) -> float:
        return mean_step(job.scaled(math.exp(log_scale))) - step_time

    # A step grows with the scale, so the two ends bracket the solution if there is one.
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
    # An absolute tolerance of the logarithm is a relative tolerance of the scale.
    return math.exp(brentq(excess, low, high, xtol=1e-9, rtol=1e-9))
