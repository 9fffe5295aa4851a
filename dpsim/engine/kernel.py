"""The simulation itself: all steps of a job, by the engine that fits how its workers meet.

What a run keeps beside its steps, so that it can be asked for it later, is said by a `Recording`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pkgutil import resolve_name
from time import thread_time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.budget import Forecast
from dpsim.base.errors import DpsimError
from dpsim.disturbance import compute_factors, random_stream
from dpsim.engine.calls import pace_of_cells
from dpsim.engine.job import Job
from dpsim.engine.steps import Steps
from dpsim.engine.together import run_together
from dpsim.engine.utilisation import fastest_factors
from dpsim.strategy.aggregation import Meeting

if TYPE_CHECKING:
    from dpsim.engine.log import Log
    from dpsim.engine.timeline import Timeline

_MOST_INTERVALS = 4_000_000  # of all steps together, where as many are asked for as have room
_TRIED = 3  # steps, to see how long the quicker engine takes
_STAGGERED = 10  # times what the fastest computes in a step, at the most
_INTERVALS_OF_A_STEP = 5  # of a worker, beside its collectives: input, passes, update, decoding
_INTERVALS_OF_A_COLLECTIVE = 4  # computing until it is ready, encoding, its collective, waiting

# Where workers that act alone meet: imported for those, since most runs are of workers together.
_MEETING_POINTS = {
    Meeting.AT_SERVERS: "dpsim.engine.at_servers:AtServers",
    Meeting.IN_PAIRS: "dpsim.engine.in_pairs:InPairs",
}


@dataclass(frozen=True, slots=True)
class Recording:
    """Which steps' intervals to keep, and whether to log who read and gave which version.

    ``steps``: so many from step ``first`` on, those that there are; None for as many as there is
    room for. Step 0 is the first after warm-up. ``workers``: the first so many; None for all.
    """

    steps: int | None = 0
    first: int = 0
    workers: int | None = None
    versions: bool = False

    def timeline(self, job: Job) -> Timeline | None:
        """What collects the intervals of ``job``; None where none are to be kept.

        Raises DpsimError where ``first`` is not simulated.
        """
        if self.steps == 0:
            return None
        steps = job.counted
        if not 0 <= self.first < len(steps):
            raise DpsimError(f"step must be from 0 to {len(steps) - 1}, but got {self.first}")
        from dpsim.engine.timeline import Timeline

        workers = job.workers if self.workers is None else min(self.workers, job.workers)
        kept = _room(job, workers) if self.steps is None else self.steps
        return Timeline(steps[self.first : self.first + kept], workers)

    def log(self) -> Log | None:
        """What collects the versions, where they are to be kept."""
        if not self.versions:
            return None
        from dpsim.engine.log import Log

        return Log()


NOTHING = Recording()


def _room(job: Job, workers: int) -> int:
    """How many steps may be kept: at least one, and all of them but for the largest clusters."""
    # Steps may send unlike amounts: as many as the one that sends most.
    collectives = max(sum(len(call.stages) for call in calls) for calls in job.calls_of.values())
    each = _INTERVALS_OF_A_STEP + _INTERVALS_OF_A_COLLECTIVE * collectives
    return max(1, _MOST_INTERVALS // (workers * each))


class Engine(NamedTuple):
    """What simulates a job, "vector" or "events", and in words what it leaves out, if anything."""

    name: str
    approximation: str | None = None


def exact_for(job: Job) -> str | None:
    """Why the vector path is not exact for ``job``, whose workers act together; None where it is.

    It times one collective at a time, alone on its links. That is exact where all workers carry out
    the same ones in one order and nothing else is on the links.
    """
    undisturbed = not job.by_messages and not job.setting.disturbed
    # Calls of one communicator follow one another; those of two may run side by side.
    together = {call.group for calls in job.calls_of.values() for call in calls}
    models = (model for turns in job.collectives.values() for model in turns)
    one_group = all(len(model.members) == 1 for model in models)
    if undisturbed and one_group and len(together) <= 1:
        return None
    reason: str | None = resolve_name("dpsim.engine.events:inexact_because")(job)
    return reason


def engine_for(job: Job) -> Engine:
    """The engine that the scenario asks for, or the one that fits.

    Raises DpsimError for the vector path where each worker goes its own way.
    """
    asked = job.scenario.run.engine
    impossible = _vector_impossible(job)
    if impossible is not None and asked == "vector":
        raise DpsimError(f"run.engine: must be auto or events {impossible}, but got 'vector'")
    if impossible is not None or asked == "events":
        return Engine("events")
    reason = exact_for(job)
    if reason is None:
        return Engine("vector")
    if asked == "auto" and resolve_name("dpsim.engine.events:takes_a_moment")(job):
        return Engine("events")
    return Engine("vector", f"each collective is timed alone on its links, but {reason}")


def in_simpy(job: Job, engine: str) -> str:
    """What of ``job`` SimPy simulates where ``engine`` carries it out, in words."""
    workers = f"{job.workers:,} worker{'s' * (job.workers > 1)}"
    if job.meeting is Meeting.AT_SERVERS:
        return f"compute, pushes and pulls of {workers}"
    if job.meeting is Meeting.IN_PAIRS:
        return f"compute and exchanges of {workers}"
    flows = job.by_messages or job.scenario.strategy.aggregation.timed_by_flows
    if engine == "events":
        size = "message by message" if flows else "each collective as a bundle"
        return f"compute and communication streams of {workers}, {size}"
    return "the messages of each collective" if flows and not job.silent else "nothing"


def _vector_impossible(job: Job) -> str | None:
    """Where no vector of clocks can say anything, and None elsewhere."""
    if job.acts_alone:
        return "where each worker goes its own way"
    if job.setting.disturbed and not job.by_messages:
        return "where bundles meet other traffic or links that change"
    return None


class Simulation(NamedTuple):
    """What happened to ``job`` in each step, warm-up included, and what was kept beside it."""

    job: Job
    engine: Engine
    steps: Steps
    timeline: Timeline | None
    log: Log | None


def simulate_job(
    job: Job,
    recording: Recording = NOTHING,
    progress: Callable[[int], None] = lambda done: None,
    *,
    staggered: bool = False,
) -> Simulation:
    """Simulate every step of ``job``, by the engine that fits, keeping what ``recording`` says.

    ``staggered``: workers that act alone are out of step when their warm-up is over, as those are
    that have been at it for long.

    The steps are the same whatever is kept. Raises FailedError where the first steps show that all
    of them would take too long.
    """
    timeline, log, engine = recording.timeline(job), recording.log(), engine_for(job)
    slowed = all_slow_downs(job)
    done = Forecast(job.counted.stop, progress, partial(_quicker, job)).done
    if job.acts_alone:
        from dpsim.engine.alone import World

        if staggered and job.counted.start:
            slowed = _staggered(slowed, job.counted.start, job.scenario.run.seed)
        point = resolve_name(_MEETING_POINTS[job.meeting])(job)
        steps = World(job, point, slowed, done, timeline, log).run()
    else:
        by_events = engine.name == "events"
        run = resolve_name("dpsim.engine.events:run_events") if by_events else run_together
        steps = run(job, slowed, done, timeline, log)
    return Simulation(job, engine, steps, timeline, log)


def _quicker(job: Job) -> str:
    """The setting with which ``job`` takes less time here, and how long: "set ..., or "."""
    run, steps = job.scenario.run, job.counted.stop
    if run.network_model == "flows":
        return "set run.network_model: auto, or "
    if run.engine != "events" or job.acts_alone or exact_for(job) is not None:
        return ""
    few = run.model_copy(update={"steps": min(steps, _TRIED), "warmup": 0})
    tried = job.lasting(job.scenario.model_copy(update={"run": few}))
    begin = thread_time()
    run_together(tried, all_slow_downs(tried), lambda done: None, None, None)
    seconds = (thread_time() - begin) * steps / few.steps
    return f"set run.engine: auto (the same answer in about {seconds:,.2g} s), or "


def _staggered(slowed: FloatArray, warmup: int, seed: int) -> FloatArray:
    """Factors on compute times whose first step holds up each worker for a while.

    Workers that begin in step meet at the servers all at once, and again in the next step, until
    they differ by enough. They begin at random within the steps that do not count, a few of them,
    so that they come to be anywhere in a step whatever its communication adds to computing.
    """
    most = min(warmup, _STAGGERED) * slowed[0].min()
    later = most * random_stream(seed, "stagger").random(slowed.shape[1])
    return np.concatenate([slowed[:1] + later, slowed[1:]])


def simulate_steps(job: Job) -> Steps:
    """Every step of ``job``, as `simulate_job` has them."""
    return simulate_job(job).steps


def mean_step(job: Job) -> float:
    """Mean seconds of the steps of ``job`` that count."""
    return float(simulate_steps(job).after(job.scenario.run.warmup).step.mean())


def all_slow_downs(job: Job) -> FloatArray:
    """`slow_downs`, and how far ranks that compute at once were measured to be apart.

    What computes for real has the second in it already.
    """
    stated, scenario = slow_downs(job), job.scenario
    own = None if scenario.profile is None else scenario.measured_jitter
    if own is None:
        return stated
    # A seed of its own: the scenario's jitter draws from the run's.
    seed = int(random_stream(scenario.run.seed, "measured jitter").integers(2**32))
    own_factors = own.factors(job.workers, job.counted.stop, seed, job.workers_of_nodes)
    return np.maximum(stated * own_factors, fastest_factors(job))


def slow_downs(job: Job) -> FloatArray:
    """The scenario's factors on compute times of all steps, warm-up included, (steps, workers).

    However lucky a draw, no GPU computes faster than its peak.
    """
    run, disturbance = job.scenario.run, job.scenario.disturbance
    factors = compute_factors(
        job.workers,
        job.counted.stop,
        run.seed,
        job.workers_of_nodes,
        jitter=disturbance.jitter,
        slow=disturbance.slow,
        transient=disturbance.transient,
    )
    # GPUs that split a model go at the pace of the slowest of them.
    factors = pace_of_cells(factors, job.scenario.cell)
    return factors if factors.min() >= 1 else np.maximum(factors, fastest_factors(job))
