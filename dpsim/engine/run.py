"""One run: a job that was simulated once, and all that can be asked of it afterwards."""

from __future__ import annotations

import platform
from collections.abc import Callable, Collection, Iterator
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.budget import limited
from dpsim.base.errors import DpsimError
from dpsim.base.provenance import stamp
from dpsim.engine.calibration import calibrated
from dpsim.engine.intervals import borrowed_efficiencies, prediction_interval
from dpsim.engine.job import Job, exchange_cycle
from dpsim.engine.kernel import Engine, engine_for, simulate_steps
from dpsim.engine.link_loads import LinkLoads, mean_step_loads, step_traffic
from dpsim.engine.memory import MemoryUse, memory_use
from dpsim.engine.preparation import MOST_RECORDS
from dpsim.engine.recording import Recording
from dpsim.engine.result import OneTimeCosts, Result
from dpsim.engine.spending import spending
from dpsim.engine.steps import Steps, unsettled
from dpsim.engine.to_target import time_to_target
from dpsim.engine.utilisation import work
from dpsim.hardware import CalibrationProfile
from dpsim.scenario import ComputeScale, MeasuredCell, MeasuredStep, Scenario
from dpsim.strategy.aggregation import ELEMENT, Meeting
from dpsim.workload import OPTIMIZER_STATES, Epoch, LearnersRow

if TYPE_CHECKING:
    from dpsim.engine.link_transfers import OnLinks
    from dpsim.engine.log import Log
    from dpsim.engine.timeline import Interval, Timeline

Progress = Callable[[int], None]

_NOTHING = Recording()
# Warm-ups that are tried where steps have not settled, in runs: all of them cost 12 more.
_LONGER = (2, 8)
# Of a link's rate over the steps: beyond it something is still on its way when they end. Steps of
# workers at their own paces are counted whole, which may come to a little more than all.
_MORE_THAN_ALL = 1.01
_SHORT = 10  # steps: runs of fewer are warmed up as long as one of these
# What a result says of its calibration profile.
_OF_PROFILE = {"name", "kind", "formula", "parameters", "residuals"}


def simulate(scenario: Scenario, progress: Progress = lambda done: None) -> Result:
    """Predict ``scenario``. ``progress`` is called with the number of steps simulated so far.

    Raises DpsimError where the scenario asks for what cannot be had, such as a precision that the
    GPU lacks, or more memory than it has.
    """
    return run_scenario(scenario, progress=progress).result


@limited()
def run_scenario(
    scenario: Scenario,
    recording: Recording = _NOTHING,
    progress: Progress = lambda done: None,
    *,
    settle: bool = True,
) -> Run:
    """Prepare ``scenario`` and simulate it, keeping what ``recording`` says.

    Where steps have not settled it is simulated again with a longer warm-up, unless ``settle`` is
    false or versions are kept, which are of a run from its start. Raises DpsimError as `simulate`
    does.
    """
    if not scenario.run.allow_out_of_memory:
        memory_use(scenario).check()  # before preparing, which takes longer
    if recording.versions or not settle:
        return _run(calibrated(scenario), recording, progress)
    settled = _with_full_pipes(_in_whole_periods(scenario))
    run = _run(calibrated(settled), recording, progress)
    if run.unsettled is not None and not _has_events(scenario):
        run = _warmed_up(run, recording)
    asked, warmup = scenario.run.warmup, run.scenario.run.warmup
    if warmup != asked:
        run.notes = (f"the first {warmup} steps do not count, instead of {asked}",)
    return run


def _in_whole_periods(scenario: Scenario) -> Scenario:
    """``scenario`` with steps up to the end of a period of averaging, if it has a whole one.

    A part of a period would hold too many averagings, or too few, for its steps. A run that begins
    before the switch to local steps is taken as it is.
    """
    run, cycle = scenario.run, exchange_cycle(scenario)
    if run.steps < cycle or run.warmup < scenario.strategy.sync.first_own_step:
        return scenario
    whole = run.model_copy(update={"steps": run.steps + -run.steps % cycle})
    return scenario.model_copy(update={"run": whole})


def _with_full_pipes(scenario: Scenario) -> Scenario:
    """``scenario`` with a warm-up in which what lags behind begins to come.

    What is on its way as the counted steps end is then made up for by what was as they began. Where
    a run is counted from its start, its lags are too.
    """
    sync, run = scenario.strategy.sync, scenario.run
    overlap = 0 if sync.outer_step is None else sync.outer_step.overlap
    together = scenario.strategy.aggregation.meeting is Meeting.TOGETHER
    lag = sync.lag if together and run.warmup else 0
    least = max(lag, overlap)
    # Workers who may run further ahead than the run is long never wait for what lags.
    if not least or run.warmup > least or lag > run.warmup + run.steps:
        return scenario
    # Step t waits for what was exchanged in step t - lag - 1: from step lag + 1 on there is one.
    return _warming_up(scenario, least + 1)


def _warming_up(scenario: Scenario, steps: int) -> Scenario:
    settings = scenario.run.model_copy(update={"warmup": steps})
    return scenario.model_copy(update={"run": settings})


def _has_events(scenario: Scenario) -> bool:
    """Whether something happens at a time or step of its own, which a longer warm-up would hide."""
    switch = scenario.strategy.sync.first_own_step
    return bool(scenario.disturbance.links) or switch > scenario.run.warmup


@limited()
def run_job(job: Job, recording: Recording = _NOTHING) -> Run:
    """Simulate a job that is prepared already, keeping what ``recording`` says.

    Raises DpsimError where it takes more memory than its GPUs have.
    """
    if not job.scenario.run.allow_out_of_memory:
        memory_use(job.scenario, job.model).check()
    return _run(job, recording, lambda done: None)


def _run(job: Job, recording: Recording, progress: Progress) -> Run:
    timeline, log, engine = recording.timeline(job), recording.log(), engine_for(job)
    steps = simulate_steps(job, progress, timeline, log, engine)
    return Run(job, steps, timeline, log, engine)


def _warmed_up(run: Run, recording: Recording) -> Run:
    """``run`` with as much warm-up as lets its steps settle, or the most that is tried."""
    asked, steps = run.scenario.run.warmup, len(run.job.counted)
    for times in _LONGER:
        warmup = times * max(asked + steps, _SHORT)
        if (warmup + steps) * run.job.workers > MOST_RECORDS:
            break
        job = replace(run.job, scenario=_warming_up(run.scenario, warmup))
        run = _run(job, recording, lambda done: None)
        if run.unsettled is None:
            break
    return run


class Run:
    """A job and what happened when it was simulated; nothing here simulates again.

    Steps are numbered from 0, the first after warm-up, but in ``all_steps``, which begin with the
    warm-up.
    """

    def __init__(
        self,
        job: Job,
        steps: Steps,
        timeline: Timeline | None,
        log: Log | None,
        engine: Engine,
    ) -> None:
        self.job = job
        self.engine = engine
        self.all_steps = steps
        self._timeline = timeline
        self._log = log
        self.notes: tuple[str, ...] = ()

    @cached_property
    def unsettled(self) -> str | None:
        """What shows that more steps would have another mean; None where they are steady."""
        found = unsettled(
            self.steps,
            self.job.cycle,
            keep_pace=self.job.keeps_pace,
            one_by_one=self.scenario.strategy.sync.outer_step is None,
        )
        if found is not None:
            return found
        carried = self.link_loads.shares(self.job.network.capacities).max(initial=0.0)
        if carried <= _MORE_THAN_ALL:
            return None
        return f"steps send {carried:.1%} of what links carry in them"

    @property
    def scenario(self) -> Scenario:
        """What was simulated."""
        return self.job.scenario

    @cached_property
    def steps(self) -> Steps:
        """The steps that count, without the warm-up."""
        return self.all_steps.after(self.scenario.run.warmup)

    @property
    def step_time(self) -> float:
        """Mean seconds of a step."""
        return float(self.steps.step.mean())

    @property
    def time_between_sends(self) -> float:
        """Seconds in which what a step sends is sent once.

        Of workers that act alone each sends at its own pace. A collective of all is as frequent as
        the steps of whoever is furthest, who begins it; those who are late take part.
        """
        if not self.job.own_pace:
            return self.step_time
        if self.job.acts_alone:
            return self.steps.time_of_all()
        furthest = np.cumsum(self.all_steps.step, axis=0).min(axis=1)
        warmup = self.scenario.run.warmup
        begun = furthest[warmup - 1] if warmup else 0.0
        return float(furthest[-1] - begun) / len(self.steps.step)

    @property
    def recorded(self) -> range:
        """The steps whose intervals were kept."""
        if self._timeline is None:
            return range(0)
        steps, warmup = self._timeline.steps, self.scenario.run.warmup
        return range(steps.start - warmup, steps.stop - warmup)

    @property
    def log(self) -> Log:
        """Who read and gave which version when, in all steps; it must have been recorded."""
        assert self._log is not None, "the run keeps no versions"
        return self._log

    def intervals(
        self, step: int | None = None, workers: int | Collection[int] | None = None
    ) -> list[Interval]:
        """What ``workers`` did in a recorded step; None for all of either.

        A number stands for the first so many.

        By worker, stream and time, in s from the start of the run. Raises DpsimError for a step
        that was not recorded.
        """
        steps = self.recorded if step is None else [step]
        if self._timeline is None or steps[0] not in self.recorded:
            raise DpsimError(f"step {steps[0]} must be recorded, but the run keeps none of it")
        warmup = self.scenario.run.warmup
        if workers is None or isinstance(workers, int):
            workers = range(self.job.workers if workers is None else workers)
        return self._timeline.intervals((warmup + each for each in steps), workers)

    def extremes(self) -> dict[str, int]:
        """The workers that computed least, in the middle and most in the first recorded step.

        By "fastest", "typical" and "slowest". Where each goes its own way, by their whole steps.
        """
        steps = self.steps.step if self.job.own_pace else self.steps.compute
        # Stable: of workers that are equally fast the same ones are shown on every machine.
        order = np.argsort(steps[self.recorded.start], kind="stable")
        return {
            "typical": int(order[(len(order) - 1) // 2]),
            "slowest": int(order[-1]),
            "fastest": int(order[0]),
        }

    def boundaries(self) -> FloatArray:
        """When each worker's recorded steps begin, and when the last of them ends (s).

        Shape (recorded steps + 1, workers); times are from the start of the run.
        """
        warmup = self.scenario.run.warmup
        ends = np.cumsum(self.all_steps.step[: warmup + self.recorded.stop], axis=0)
        bounds = np.vstack([np.zeros(self.job.workers), ends])
        return np.asarray(bounds[warmup + self.recorded.start :])

    @limited()
    def link_transfers(self) -> OnLinks:
        """What the recorded steps' transfers put on each link, from when to when.

        All workers must have been recorded.
        """
        from dpsim.engine.link_transfers import link_transfers

        first = self.scenario.run.warmup + self.recorded.start
        return link_transfers(self.job, self.intervals(), first)

    @cached_property
    def link_loads(self) -> LinkLoads:
        """Bytes that each link carries in a step on average."""
        return mean_step_loads(self.job, self.time_between_sends)

    @cached_property
    @limited()
    def result(self) -> Result:
        """The answer."""
        job, scenario = self.job, self.scenario
        memory = memory_use(scenario, job.model)
        one_time = one_time_costs(job)
        crashes = scenario.disturbance.crashes
        return Result(
            name=scenario.name,
            workers=job.workers,
            batch_per_worker=scenario.workload.samples_per_gpu,
            steps=self.steps,
            traffic=step_traffic(job, self.link_loads),
            alone=job.acts_alone,
            engine=self.engine.name,
            approximation=self.engine.approximation,
            own_pace=job.own_pace,
            unsettled=self.unsettled,
            one_time=one_time,
            to_target=time_to_target(scenario, self.step_time),
            calibration=_calibration(job, memory),
            seed=scenario.run.seed,
            provenance=provenance(),
            memory=memory,
            pipeline=job.input,
            epoch=_epoch(scenario),
            learners=_learners(scenario, memory),
            notes=(*memory.model.notes, *self.notes),
            libraries=tuple(job.setting.libraries),
            goodput=None
            if crashes is None
            else crashes.goodput(job.workers, one_time.startup_s, job.workers_of_nodes),
            spending=spending(scenario),
            work=work(scenario, job.model, job.cluster),
            cautions=_cautions(job),
            interval=prediction_interval(job, self.steps),
        )


def _cautions(job: Job) -> tuple[str, ...]:
    """What is to be known of the cluster, and of what was measured elsewhere or nowhere."""
    scenario = job.scenario
    calibration = scenario.calibration
    said = (
        *scenario.cluster.warnings,
        *dict.fromkeys(_extrapolations(job)),
        *job.setting.cautions,
    )
    if not isinstance(calibration, CalibrationProfile):
        return said
    gpus = sorted({part.accelerator.name for part in scenario.cluster.parts})
    return (*said, *calibration.cautions(gpus, job.setting.library))


def _calibration(job: Job, memory: MemoryUse) -> str | dict[str, Any]:
    """What a result says of where its times come from."""
    compute = "catalogue" if memory.model.measured is None else "profile"
    calibration = job.scenario.calibration
    if isinstance(calibration, MeasuredStep | ComputeScale | MeasuredCell):
        alone = {"cell"} if job.scenario.cell == 1 else set()
        said = calibration.model_dump(exclude=alone)
        return {**said, "compute_scale": job.compute_scale}
    if isinstance(calibration, CalibrationProfile):
        return {"compute": compute, **calibration.model_dump(include=_OF_PROFILE)}
    return compute


def _extrapolations(job: Job) -> Iterator[str]:
    """A warning for each kind of GPU whose efficiency is another generation's."""
    if isinstance(job.scenario.calibration, MeasuredStep | ComputeScale):
        return  # what was measured has the efficiency in it
    for gpu, stands in borrowed_efficiencies(job):
        yield (
            f"how much of its peaks the {gpu.name} ({gpu.architecture}) reaches was not "
            f"measured: extrapolated from {stands}"
        )


def _epoch(scenario: Scenario) -> Epoch | None:
    dataset = scenario.workload.dataset
    if dataset is None:
        return None
    return dataset.epoch(scenario.cluster.ranks, scenario.workload.samples_per_gpu)


def provenance() -> dict[str, str]:
    """What made a result, and when: the part of its JSON that differs from run to run."""
    return stamp(python=platform.python_version(), numpy=np.__version__)


def one_time_costs(job: Job) -> OneTimeCosts:
    """What ``job`` pays once."""
    aggregation, parameters = job.scenario.strategy.aggregation, job.model.parameters
    # Of a cell each GPU holds a part, and gets that alone.
    parameters = -(-parameters // job.scenario.cell)
    # The weights themselves, and as much again for each state that the optimiser keeps.
    state = parameters * ELEMENT * (1 + OPTIMIZER_STATES[job.scenario.workload.optimizer])
    startup = 0.0 if job.silent else aggregation.startup(job.model, state, job.setting)
    return OneTimeCosts(startup, aggregation.consensus(parameters * ELEMENT, job.setting))


def _learners(scenario: Scenario, memory: MemoryUse) -> tuple[LearnersRow, ...]:
    """The best number of learners for each batch, where the scenario asks for several."""
    workload = scenario.workload
    if workload.learners_per_gpu == 1 and not workload.utilisation:
        return ()
    from dpsim.engine.learners import learners_by_batch

    return learners_by_batch(scenario, memory)
