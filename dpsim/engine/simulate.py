"""Scenario in, result out."""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.budget import Forecast, limited
from dpsim.base.errors import DpsimError
from dpsim.base.provenance import stamp
from dpsim.disturbance import compute_factors
from dpsim.engine.alone import World
from dpsim.engine.at_servers import AtServers
from dpsim.engine.in_pairs import InPairs
from dpsim.engine.job import Job, learners_by_batch, prepare
from dpsim.engine.log import Log
from dpsim.engine.memory import memory_use
from dpsim.engine.one_time_costs import one_time_costs
from dpsim.engine.result import Bytes, Result
from dpsim.engine.spending import spending
from dpsim.engine.steps import Steps
from dpsim.engine.timeline import Interval, Timeline
from dpsim.engine.to_target import time_to_target
from dpsim.engine.together import run_together
from dpsim.hardware import CalibrationProfile
from dpsim.scenario import ComputeScale, MeasuredStep, Scenario
from dpsim.strategy.aggregation import GossipConfig
from dpsim.workload import Epoch

_LEAST_SCALE, _MOST_SCALE = 1e-6, 1e6
_OF_PROFILE = {
    "name",
    "kind",
    "formula",
    "parameters",
    "residuals",
}  # what a result says of its profile


@limited()
def simulate(scenario: Scenario, progress: Callable[[int], None] = lambda done: None) -> Result:
    """Predict ``scenario``. ``progress`` is called with the number of steps simulated so far.

    Raises DpsimError where the scenario asks for what cannot be had, such as a precision that the
    GPU lacks, or more memory than it has.
    """
    memory = memory_use(scenario)
    if not scenario.run.allow_out_of_memory:
        memory.check()
    crashes = scenario.disturbance.crashes
    shares = scenario.workload.learners_per_gpu > 1 or bool(scenario.workload.utilisation)
    job, scale = _calibrated(scenario)
    steps = _simulated(job, progress)
    one_time = one_time_costs(job)
    return Result(
        name=scenario.name,
        workers=job.workers,
        batch_per_worker=scenario.workload.samples_per_gpu,
        steps=steps,
        traffic=_bytes(job, float(steps.step.mean())),
        alone=job.acts_alone,
        one_time=one_time,
        to_target=time_to_target(scenario, float(steps.step.mean())),
        calibration=_calibration(
            scenario, scale, "catalogue" if memory.model.measured is None else "profile"
        ),
        seed=scenario.run.seed,
        provenance=provenance(),
        memory=memory,
        pipeline=job.input,
        epoch=_epoch(scenario),
        learners=learners_by_batch(scenario, memory) if shares else (),
        notes=memory.model.notes,
        goodput=None if crashes is None else crashes.goodput(job.workers, one_time.startup_s),
        spending=spending(scenario),
    )


def _calibration(scenario: Scenario, scale: float, compute: str) -> str | dict[str, Any]:
    """What a result says of where its times come from.

    Compute times from ``compute``, times ``scale``.
    """
    if isinstance(scenario.calibration, MeasuredStep | ComputeScale):
        return {**scenario.calibration.model_dump(), "compute_scale": scale}
    if isinstance(scenario.calibration, CalibrationProfile):
        return {"compute": compute, **scenario.calibration.model_dump(include=_OF_PROFILE)}
    return compute


def compute_scale(scenario: Scenario, measured: MeasuredStep) -> float:
    """The factor on compute times with which the prediction for ``measured.nodes`` nodes is the
    measured step time.

    Raises DpsimError when no compute time could make it so: communication alone takes longer than
    the measured step.
    """
    from scipy.optimize import brentq

    cluster = scenario.cluster.with_nodes(measured.nodes)
    job = prepare(scenario.model_copy(update={"cluster": cluster}))

    def excess(log_scale: float) -> float:
        return float(_simulated(job.scaled(np.exp(log_scale))).step.mean()) - measured.step_time

    low, high = np.log(_LEAST_SCALE), np.log(_MOST_SCALE)
    if excess(low) > 0:
        raise DpsimError(
            "calibration.step_time must be longer than communication alone "
            f"({excess(low) + measured.step_time:.4g} s "
            f"on {measured.nodes} nodes), but got {measured.step_time:.4g} s"
        )
    return float(np.exp(brentq(excess, low, high, xtol=1e-9, rtol=1e-9)))


def _simulated(
    job: Job,
    progress: Callable[[int], None] = lambda done: None,
    timeline: Timeline | None = None,
    log: Log | None = None,
) -> Steps:
    """The steps that count, without the warm-up."""
    return _all_steps(job, progress, timeline, log).after(job.scenario.run.warmup)


def _all_steps(
    job: Job, progress: Callable[[int], None], timeline: Timeline | None, log: Log | None = None
) -> Steps:
    slowed, forecast = slow_downs(job), Forecast(job.scenario.run.warmup + job.scenario.run.steps)

    def done(steps: int) -> None:
        forecast.check(steps)
        progress(steps)

    if job.acts_alone:
        meeting = (
            InPairs(job) if job.scenario.strategy.aggregation.kind == "gossip" else AtServers(job)
        )
        return World(job, meeting, slowed, done, timeline, log).run()
    return run_together(job, slowed, done, timeline, log)


def slow_downs(job: Job) -> FloatArray:
    """The factors on compute times of all steps, warm-up included, (steps, workers)."""
    run, disturbance = job.scenario.run, job.scenario.disturbance
    return compute_factors(
        job.workers,
        run.warmup + run.steps,
        run.seed,
        np.bincount(job.cluster.node_of).tolist(),
        jitter=disturbance.jitter,
        slow=disturbance.slow,
        transient=disturbance.transient,
    )


@limited()
def timeline(scenario: Scenario, step: int | None = None, workers: int = 8) -> list[Interval]:
    """What the first ``workers`` did in a step, the first that counts if ``step`` is None.

    One after warm-up is number 0.

    Intervals (worker, stream, name, start, end), times in s from the start of the run, by worker,
    stream and time. Raises DpsimError for a step that is not simulated.
    """
    run = scenario.run
    if step is not None and not 0 <= step < run.steps:
        raise DpsimError(f"step must be from 0 to {run.steps - 1}, but got {step}")
    number = run.warmup + (step or 0)
    job = calibrated(scenario)
    shown = Timeline(range(number, number + 1), min(workers, job.workers))
    _simulated(job, timeline=shown)
    return shown.sorted()


@limited()
def recorded(
    scenario: Scenario, step: int, count: int, workers: int
) -> tuple[Job, Steps, list[Interval]]:
    """The job of ``scenario``, all its steps (warm-up too), and what the first ``workers`` did in
    ``count`` steps from ``step`` on.

    The first step after warm-up is number 0. Raises DpsimError for steps that are not simulated.
    """
    run = scenario.run
    if step < 0 or count < 1 or step + count > run.steps:
        raise DpsimError(f"steps must be from 0 to {run.steps - 1}, but got {count} from {step} on")
    job, first = calibrated(scenario), run.warmup + step
    shown = Timeline(range(first, first + count), min(workers, job.workers))
    steps = _all_steps(job, lambda done: None, shown)
    return job, steps, shown.sorted()


@limited()
def logged(
    scenario: Scenario, progress: Callable[[int], None] = lambda done: None
) -> tuple[Job, Steps, Log]:
    """The job of ``scenario``, the steps that count, and the log of all, warm-up included.

    Raises DpsimError as `simulate` does.
    """
    if not scenario.run.allow_out_of_memory:
        memory_use(scenario).check()
    job, log = calibrated(scenario), Log()
    return job, _simulated(job, progress, log=log), log


def calibrated(scenario: Scenario) -> Job:
    """The job of ``scenario``, its compute times scaled where the calibration says so."""
    return _calibrated(scenario)[0]


def _calibrated(scenario: Scenario) -> tuple[Job, float]:
    """The same, and the factor on compute times."""
    job, calibration = prepare(scenario), scenario.calibration
    if isinstance(calibration, MeasuredStep):
        scale = compute_scale(scenario, calibration)
    elif isinstance(calibration, ComputeScale):
        scale = calibration.compute_scale
    else:
        return job, 1.0
    return job.scaled(scale), scale


def bytes_in_step(job: Job, step: int) -> float:
    """Bytes that all workers send in step ``step``, an iteration of each."""
    stages = [stage for call in job.calls(step) for stage in call.stages]
    return sum(
        job.collective(name, step).traffic(nbytes).total
        * _repeats(job, step % len(job.collectives[name]))
        for name, nbytes in stages
    )


def _bytes(job: Job, step_time: float) -> Bytes:
    """What one step sends on average, and how busy the busiest link is over a step."""
    sent, total = np.zeros(job.workers), 0.0
    loads = np.zeros(len(job.network.capacities))
    used = set()
    for (name, nbytes, turn), share in _collectives(job).items():
        model = job.collective(name, turn)
        moved = model.traffic(nbytes)
        sent, total = sent + share * moved.sent, total + share * moved.total
        loads += share * job.on_links(model.finish(np.zeros(job.workers), nbytes))
        used.add(model.algorithm_for(nbytes))
    if not total:
        return Bytes(0, 0, None, 0.0)
    utilisation = loads / (job.network.capacities * step_time)
    busiest = int(utilisation.argmax())
    link = job.network.link_name(busiest)
    return Bytes(
        round(sent.max()), round(total), link, float(utilisation[busiest]), tuple(sorted(used))
    )


def _collectives(job: Job) -> dict[tuple[str, int, int], float]:
    """Every collective of a step, its bytes and in which turn: how often per step."""
    run = job.scenario.run
    meetings = Counter(
        job.scenario.strategy.sync.exchanges(step, job.period)
        for step in range(run.warmup, run.warmup + run.steps)
    )
    often: dict[tuple[str, int, int], float] = defaultdict(float)
    for meeting, count in meetings.items():
        for name, nbytes in (stage for call in job.calls_of[meeting] for stage in call.stages):
            turns = len(job.collectives[name])
            for turn in range(turns):
                often[name, nbytes, turn] += count / run.steps / turns * _repeats(job, turn)
    return often


def _repeats(job: Job, turn: int) -> float:
    """Messages of an asynchronous exchange of pairs, one each way for every worker that has a
    partner, over those of the turn.
    """
    aggregation = job.scenario.strategy.aggregation
    if not (job.acts_alone and isinstance(aggregation, GossipConfig)):
        return 1.0
    heard = np.concatenate(
        [
            phase.destination.at(0)
            for phase in aggregation.turns(job.workers, job.setting.seed)[turn].phases
        ]
    )
    return 2 * len(np.unique(heard)) / len(heard)


def _epoch(scenario: Scenario) -> Epoch | None:
    dataset = scenario.workload.dataset
    return (
        None
        if dataset is None
        else dataset.epoch(scenario.cluster.ranks, scenario.workload.samples_per_gpu)
    )


def provenance() -> dict[str, str]:
    """What made a result, and when: the part of its JSON that differs from run to run."""
    return stamp(python=platform.python_version(), numpy=np.__version__)
