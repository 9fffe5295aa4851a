"""The simulation itself: all steps of a job, by the engine that fits how its workers meet."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.budget import Forecast
from dpsim.base.lazy import imported
from dpsim.disturbance import compute_factors
from dpsim.engine.job import Job
from dpsim.engine.steps import Steps
from dpsim.engine.together import run_together
from dpsim.strategy.aggregation import Meeting

if TYPE_CHECKING:
    from dpsim.engine.log import Log
    from dpsim.engine.timeline import Timeline

# Where workers that act alone meet: imported for those, since most runs are of workers together.
_MEETING_POINTS = {
    Meeting.AT_SERVERS: "dpsim.engine.at_servers:AtServers",
    Meeting.IN_PAIRS: "dpsim.engine.in_pairs:InPairs",
}


def simulate_steps(
    job: Job,
    progress: Callable[[int], None] = lambda done: None,
    timeline: Timeline | None = None,
    log: Log | None = None,
) -> Steps:
    """Simulate every step of ``job``, warm-up included.

    ``timeline`` and ``log``, where given, collect what happens; the steps are the same without.
    Raises FailedError where the first steps show that all of them would take too long.
    """
    forecast = Forecast(job.counted.stop)

    def done(steps: int) -> None:
        forecast.check(steps)
        progress(steps)

    slowed = slow_downs(job)
    if not job.acts_alone:
        return run_together(job, slowed, done, timeline, log)
    from dpsim.engine.alone import World

    point = imported(_MEETING_POINTS[job.meeting])(job)
    return World(job, point, slowed, done, timeline, log).run()


def slow_downs(job: Job) -> FloatArray:
    """The factors on compute times of all steps, warm-up included, (steps, workers)."""
    run, disturbance = job.scenario.run, job.scenario.disturbance
    return compute_factors(
        job.workers,
        job.counted.stop,
        run.seed,
        np.bincount(job.cluster.node_of).tolist(),
        jitter=disturbance.jitter,
        slow=disturbance.slow,
        transient=disturbance.transient,
    )
