"""The simulation itself: all steps of a job, by the engine that suits its workers' coordination.

A `Recording` states the intervals and versions that a run keeps besides its steps.
"""

from __future__ import annotations

from collections import Counter
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
from dpsim.engine.utilisation import fastest_factors
from dpsim.engine.vector_engine import run_vector
from dpsim.scenario import Scenario
from dpsim.strategy.aggregation import Coordination

if TYPE_CHECKING:
    from dpsim.engine.log import Log
    from dpsim.engine.timeline import Timeline

_MOST_INTERVALS = 4_000_000  # recorded in all, if as many steps are asked for as there is room for
_TRIED = 3  # steps, to see how long the quicker engine takes
_STAGGERED = 10  # longest random delay, in compute times of the fastest worker's step
_INTERVALS_OF_A_STEP = 5  # per worker, without collectives: input, passes, update, decoding
_INTERVALS_OF_A_COLLECTIVE = 4  # computing until it is ready, encoding, its collective, waiting

_MOST_CHOSEN_S = 60.0  # CPU seconds of event-by-event runs that `auto` chooses
# CPU seconds of such a run, measured on one core at 2.5 GHz.
_PER_WORKER = 30e-6  # per collective: computing up to it, entering, leaving
_PER_MESSAGE = 140e-6
_PER_GROUP = 2e-3  # for a bundle among others, and for making a group's model
_PER_PLACE = 100e-6  # per rank that leaves at its own time

# The coordinators of asynchronous workers, imported on demand: most runs are synchronous.
_COORDINATORS = {
    Coordination.SERVERS: "dpsim.engine.at_servers:ServerCoordinator",
    Coordination.PAIRWISE: "dpsim.engine.pairwise:PairwiseCoordinator",
}


@dataclass(frozen=True, slots=True)
class Recording:
    """The steps whose intervals to keep, and whether to log versions read and given.

    ``steps``: how many steps to keep from step ``first`` on; None for as many as there is room for.
    Step 0 is the first after warm-up. ``workers``: how many workers to keep, from 0 on; None for
    all.
    """

    steps: int | None = 0
    first: int = 0
    workers: int | None = None
    versions: bool = False

    def timeline(self, job: Job) -> Timeline | None:
        """Return the collector of the intervals of ``job``, or None if none are kept.

        Raises DpsimError if ``first`` is not simulated.
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
        """Return the collector of the versions, or None if they are not kept."""
        if not self.versions:
            return None
        from dpsim.engine.log import Log

        return Log()


NOTHING = Recording()


def _room(job: Job, workers: int) -> int:
    """Return how many steps may be kept: at least one, and all except on the largest clusters."""
    # Steps may differ in their collectives: count those of the largest step.
    collectives = max(sum(len(call.stages) for call in calls) for calls in job.calls_of.values())
    each = _INTERVALS_OF_A_STEP + _INTERVALS_OF_A_COLLECTIVE * collectives
    return max(1, _MOST_INTERVALS // (workers * each))


class Engine(NamedTuple):
    """The engine that simulates a job, "vector" or "events", and its approximation in words."""

    name: str
    approximation: str | None = None


def exact_for(job: Job) -> str | None:
    """Return why the vector path is not exact for ``job``, whose workers are synchronous, or None.

    It times one collective at a time, alone on its links. That is exact if all workers run the same
    collectives in the same order and nothing else uses the links.
    """
    undisturbed = not job.by_messages and not job.setting.disturbed
    # Calls of one communicator run one after the other; calls of two may run concurrently.
    groups = {call.group for calls in job.calls_of.values() for call in calls}
    models = (model for turns in job.collectives.values() for model in turns)
    one_group = all(len(model.members) == 1 for model in models)
    if undisturbed and one_group and len(groups) <= 1:
        return None
    reason: str | None = resolve_name("dpsim.engine.events:inexact_because")(job)
    return reason


def with_quick_engine(scenario: Scenario, job: Job) -> Scenario:
    """Return ``scenario``, without asking for events if the vector path is exact for ``job``."""
    if scenario.run.engine != "events" or job.independent_workers or exact_for(job) is not None:
        return scenario
    by_choice = scenario.run.model_copy(update={"engine": "auto"})
    return scenario.model_copy(update={"run": by_choice})


def engine_for(job: Job) -> Engine:
    """Return the engine that the scenario asks for, or for `auto` the one that fits.

    Raises DpsimError for the vector path with asynchronous workers.
    """
    engine = job.scenario.run.engine
    impossible = None
    if job.independent_workers:
        impossible = "where workers are asynchronous"
    elif job.setting.disturbed and not job.by_messages:
        impossible = "where bundles meet other traffic or links that change"
    if impossible is not None and engine == "vector":
        raise DpsimError(f"run.engine: must be auto or events {impossible}, but got 'vector'")
    if impossible is not None or engine == "events":
        return Engine("events")
    reason = exact_for(job)
    if reason is None:
        return Engine("vector")
    # With background traffic both engines simulate messages, one collective at a time on the vector
    # path, so they take equally long.
    if engine == "auto" and (job.setting.disturbed or _event_run_s(job) <= _MOST_CHOSEN_S):
        return Engine("events")
    return Engine("vector", f"each collective is timed alone on its links, but {reason}")


def in_simpy(job: Job, engine: str) -> str:
    """Return a description of the part of ``job`` that SimPy simulates with ``engine``."""
    workers = f"{job.workers:,} worker{'s' * (job.workers > 1)}"
    if job.coordination is Coordination.SERVERS:
        return f"compute, pushes and pulls of {workers}"
    if job.coordination is Coordination.PAIRWISE:
        return f"compute and exchanges of {workers}"
    flows = job.by_messages or job.scenario.strategy.aggregation.timed_by_flows
    if engine == "events":
        size = "message by message" if flows else "each collective as a bundle"
        return f"compute and communication streams of {workers}, {size}"
    return "the messages of each collective" if flows and not job.silent else "nothing"


def _event_run_s(job: Job) -> float:
    """Return an estimate of the CPU seconds of an event-by-event run of ``job``."""
    groups = sum(len(model.members) for turns in job.collectives.values() for model in turns)
    seconds = 0.0 if job.by_messages else _PER_GROUP * groups
    stop = job.counted.stop
    cycle = range(min(stop, job.scenario.strategy.sync.first_own_step + job.cycle))
    for kind, count in Counter(map(job.exchange, cycle)).items():
        for name, nbytes in (stage for call in job.calls_of[kind] for stage in call.stages):
            model, often = job.collective(name), count * stop / len(cycle)
            if job.by_messages:
                schedule = getattr(model.of_size(nbytes), "schedule", None)
                messages = job.workers if schedule is None else schedule.transfers
                seconds += often * messages * _PER_MESSAGE
            else:
                per_call = len(model.members) * _PER_GROUP
                seconds += often * (per_call + job.workers * (_PER_WORKER + _PER_PLACE))
    return seconds


class Simulation(NamedTuple):
    """The steps of ``job``, warm-up included, and what was recorded in addition."""

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
    """Simulate every step of ``job`` with the engine that fits, and record as ``recording`` says.

    ``staggered``: asynchronous workers start at random times, because after a long time they are
    out of step.

    The steps do not depend on what is recorded. Raises FailedError if the first steps, or a rough
    estimate of all events, show that the simulation would take too long.
    """
    timeline, log, engine = recording.timeline(job), recording.log(), engine_for(job)
    slowed = all_slow_downs(job)
    forecast = Forecast(job.counted.stop, progress, partial(_quicker_setting, job))
    done = forecast.done
    if job.independent_workers:
        from dpsim.engine.independent_workers import World

        if staggered and job.counted.start:
            slowed = _staggered(slowed, job.counted.start, job.scenario.run.seed)
        coordinator = resolve_name(_COORDINATORS[job.coordination])(job)
        steps = World(job, coordinator, slowed, done, timeline, log).run()
    else:
        by_events = engine.name == "events"
        if by_events:
            forecast.expect(_event_run_s(job))
        run = resolve_name("dpsim.engine.events:run_events") if by_events else run_vector
        steps = run(job, slowed, done, timeline, log)
    return Simulation(job, engine, steps, timeline, log)


def _quicker_setting(job: Job) -> str:
    """Return advice on a quicker setting and its time, as "set ..., or ", or nothing."""
    run, steps = job.scenario.run, job.counted.stop
    if run.network_model == "flows":
        return "set run.network_model: auto, or "
    if run.engine != "events" or job.independent_workers or job.setting.disturbed:
        return ""
    few = run.model_copy(update={"steps": min(steps, _TRIED), "warmup": 0})
    tried = job.for_scenario(job.scenario.model_copy(update={"run": few}))
    begin = 0.0
    for _ in range(2):  # the first time prepares
        begin = thread_time()
        run_vector(tried, all_slow_downs(tried), lambda done: None, None, None)
    seconds = float(f"{(thread_time() - begin) * steps / few.steps:.2g}")
    if exact_for(job) is None:
        return f"set run.engine: auto (the same answer in about {seconds:,g} s), or "
    return f"set run.engine: vector (an approximation in about {seconds:,g} s), or "


def _staggered(slowed: FloatArray, warmup: int, seed: int) -> FloatArray:
    """Return factors on compute times whose first step delays each worker at random.

    Workers that start together would all reach the servers at once, step after step, until they
    drift apart. The delay spans several steps, so that workers are spread evenly over a step even
    if communication makes it much longer than computing.
    """
    most = min(warmup, _STAGGERED) * slowed[0].min()
    later = most * random_stream(seed, "stagger").random(slowed.shape[1])
    return np.concatenate([slowed[:1] + later, slowed[1:]])


def mean_step(job: Job) -> float:
    """Return the mean time of the steps of ``job`` that count (s)."""
    return float(simulate_job(job).steps.after(job.scenario.run.warmup).step.mean())


def all_slow_downs(job: Job) -> FloatArray:
    """Return `slow_downs` times the measured jitter between ranks.

    Compute times taken from real runs already include that jitter.
    """
    stated, scenario = slow_downs(job), job.scenario
    own = None if scenario.profile is None else scenario.measured_jitter
    if own is None:
        return stated
    # A separate seed, because the scenario's jitter draws from the run's.
    seed = int(random_stream(scenario.run.seed, "measured jitter").integers(2**32))
    own_factors = own.factors(job.workers, job.counted.stop, seed, job.workers_of_nodes)
    return np.maximum(stated * own_factors, fastest_factors(job))


def slow_downs(job: Job) -> FloatArray:
    """Return the scenario's factors on compute times, (steps, workers), warm-up included.

    No draw lets a GPU compute faster than its peak.
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
    # GPUs that split a model are as slow as the slowest of them.
    factors = pace_of_cells(factors, job.scenario.cell)
    return factors if factors.min() >= 1 else np.maximum(factors, fastest_factors(job))
