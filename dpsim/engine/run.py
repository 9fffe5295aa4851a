"""One run: a job that was simulated once, and the results derived from it."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.budget import Budget, limited
from dpsim.base.errors import DpsimError
from dpsim.engine.answer import answer
from dpsim.engine.calibration import calibrated
from dpsim.engine.job import Job
from dpsim.engine.kernel import (
    NOTHING,
    Recording,
    Simulation,
    simulate_job,
    with_quick_engine,
)
from dpsim.engine.link_loads import LinkLoads, StepTraffic, step_traffic
from dpsim.engine.memory import check_fits
from dpsim.engine.result import Result
from dpsim.engine.run_length import (
    MOST_RECORDS,
    check_length,
    continued,
    has_events,
    settled_length,
    warming_up,
)
from dpsim.engine.spending import samples_to_pay
from dpsim.engine.steadiness import FEWEST, departure, piled_up, running_ahead, unsettled
from dpsim.engine.steps import Steps
from dpsim.scenario import Scenario

if TYPE_CHECKING:
    from dpsim.engine.link_transfers import OnLinks
    from dpsim.engine.log import Log
    from dpsim.engine.timeline import Interval

Progress = Callable[[int], None]

# Warm-ups to try if steps have not settled, in multiples of the run; the last one only with few
# records and synchronous workers, which are faster to simulate.
_LONGER = (2, 8, 32)
_FEW_RECORDS = 200_000
# How many times an asynchronous run's length is simulated to see whether more steps have another
# mean, and the most messages of the first and the second try (a thousand take about 70 ms).
_FEWEST_RUNS, _MOST_RUNS = 4, 32
_MESSAGES = (4_000, 20_000)
# If a link's load over the steps exceeds this share of its rate, data must still be in flight at
# their end. Above 1, because asynchronous workers' steps are counted whole.
_MOST_LINK_SHARE = 1.01
_SHORT = 10  # steps: shorter runs are warmed up as long as a run of this length


def simulate(scenario: Scenario, progress: Progress = lambda done: None) -> Result:
    """Predict ``scenario``. ``progress`` is called with the number of steps simulated so far.

    Raises DpsimError if the scenario asks for something impossible, such as a precision that the
    GPU lacks, or more memory than it has.
    """
    return run_scenario(scenario, progress=progress).result


@limited()
def run_scenario(
    scenario: Scenario,
    recording: Recording = NOTHING,
    progress: Progress = lambda done: None,
    *,
    settle: bool = True,
    quick: bool = False,
) -> Run:
    """Prepare ``scenario`` and simulate it, recording as ``recording`` says.

    With ``quick`` the vector engine simulates it wherever it is exact, even if the scenario asks
    for events. If steps have not settled, it is simulated again with a longer warm-up, unless
    ``settle`` is false or versions are recorded, which need a run from its start. Raises DpsimError
    as `simulate` does.
    """
    model = None
    if not scenario.run.allow_out_of_memory:
        model = scenario.build_model()
        check_fits(scenario, model)  # before preparing, which takes longer
    unchanged = recording.versions or not settle
    settled = scenario if unchanged else settled_length(scenario)
    # Before anything is built, because building already takes long for too many workers.
    check_length(settled)
    job = calibrated(settled, model)
    if quick:
        quick_scenario = with_quick_engine(settled, job)
        job = job if quick_scenario is settled else job.for_scenario(quick_scenario)
    samples_to_pay(scenario, job.model.tokens)  # fail early, before minutes of simulation
    run = Run(simulate_job(job, recording, progress, staggered=not unchanged))
    if unchanged:
        return run
    if not has_events(scenario):
        run = _in_whole_bursts(run, recording)
        run = _warmed_up(run, recording)
        run = _confirmed(run, recording)
    requested, warmup = scenario.run.warmup, run.scenario.run.warmup
    if warmup != requested:
        run.notes += (f"the first {warmup} steps do not count, instead of {requested}",)
    return run


@limited()
def run_job(job: Job, recording: Recording = NOTHING) -> Run:
    """Simulate a job that is already prepared, recording as ``recording`` says.

    Raises DpsimError if it takes more memory than its GPUs have, or too many steps.
    """
    check_length(job.scenario)
    if not job.scenario.run.allow_out_of_memory:
        check_fits(job.scenario, job.model)
    return Run(simulate_job(job, recording))


def _in_whole_bursts(run: Run, recording: Recording) -> Run:
    """Return ``run`` over whole bursts of batches if its steps wait for input.

    Steps wait only for the first batch of a burst: a few steps may contain no wait, or too many.
    """
    pipeline, length = run.job.input, run.scenario.run
    if pipeline is None or not pipeline.limits(run.steps.busiest()):
        return run
    burst, requested = pipeline.burst(), len(run.job.counted)
    warmup = max(length.warmup, 2 * burst)
    steps = requested + -requested % math.lcm(burst, run.job.cycle)
    too_many = (warmup + steps) * run.job.workers > MOST_RECORDS
    if too_many or (warmup, steps) == (length.warmup, requested):
        return run
    longer = length.model_copy(update={"warmup": warmup, "steps": steps})
    run = _simulate_again(run, run.scenario.model_copy(update={"run": longer}), recording)
    if steps != requested:
        run.notes = (f"{steps} steps count, instead of {requested}: batches come {burst} at once",)
    return run


def _warmed_up(run: Run, recording: Recording) -> Run:
    """Return ``run`` with a warm-up that lets its steps settle, or the longest that is tried."""
    requested, steps, workers = run.scenario.run.warmup, len(run.job.counted), run.job.workers
    for times in _LONGER:
        warmup = times * max(requested + steps, _SHORT)
        long = times == _LONGER[-1]
        # A longer run has the same limit as the original one.
        too_many = (warmup + steps) * workers > (_FEW_RECORDS if long else MOST_RECORDS)
        if run.changing is None or too_many or (long and run.job.independent_workers):
            break
        run = _simulate_again(run, warming_up(run.scenario, warmup), recording)
    return run


def _confirmed(run: Run, recording: Recording) -> Run:
    """Return ``run`` if asynchronous workers take as long in further steps, else those steps.

    Workers may keep a rhythm for thousands of steps that the smallest irregularity ends, so that no
    part of the run shows it. Computing without jitter therefore varies by 1 % in the further steps.
    A run that is counted from its start is not changed, but reported as not settled.
    """
    if not run.job.independent_workers or run.changing is not None:
        return run
    own, requested = run, run.job.counted
    if not requested.start and len(requested) < FEWEST:
        return run  # the run consists of its start only
    sent = own.job.workers * requested.stop * (len(own.job.calls(0)) + 1)
    for most in _MESSAGES:
        times = min(_MOST_RUNS, most // sent)
        if times < _FEWEST_RUNS:
            break
        further = _simulate_again(own, continued(own.scenario, times * requested.stop), recording)
        change = departure(own.steps, further.steps)
        if not change:
            return own
        number, longer = len(further.job.counted), "longer" if change > 0 else "shorter"
        if not requested.start:
            own.unsettled = f"{number} later ones are {abs(change):.1%} {longer} on average"
            return own
        run = further
        varied = run.scenario.disturbance != own.scenario.disturbance
        run.notes = (
            f"{number} steps count, instead of {len(requested)}, which are {abs(change):.1%} "
            f"{longer} on average{', with computing that varies by 1 %' if varied else ''}",
        )
        if run.changing is None:
            break
    return run


def _simulate_again(run: Run, scenario: Scenario, recording: Recording) -> Run:
    """Simulate the job of ``run`` with the lengths and the disturbances of ``scenario``."""
    return Run(simulate_job(run.job.for_scenario(scenario), recording, staggered=True))


class Run:
    """A job and its simulated steps; nothing here simulates again.

    Steps are numbered from 0, the first after warm-up, except in ``all_steps``, which include the
    warm-up.
    """

    def __init__(self, simulation: Simulation) -> None:
        self.job = simulation.job
        self.engine = simulation.engine
        self.all_steps = simulation.steps
        self._timeline = simulation.timeline
        self._log = simulation.log
        self.notes: tuple[str, ...] = ()

    @cached_property
    def unsettled(self) -> str | None:
        """Why more steps would have another mean; None if the steps are steady."""
        if self.changing is not None or self._bound_is_reached or not self.job.keeps_pace:
            return self.changing
        return running_ahead(
            self.steps, self.job.cycle, independent_workers=self.job.independent_workers
        )

    @property
    def _bound_is_reached(self) -> bool:
        """Whether a worker that runs ahead may reach its bound within the longest warm-up."""
        longest = max(self.job.counted.stop, _SHORT) * max(_LONGER)
        return self.job.gate().lag <= longest

    @cached_property
    def changing(self) -> str | None:
        """Why as many later steps would have another mean; None if nothing shows it.

        A bound on clocks that no worker reaches in these steps does not count.
        """
        found = unsettled(
            self.steps,
            self.job.cycle,
            keep_pace=self.job.keeps_pace and self._bound_is_reached,
            one_by_one=self.scenario.strategy.sync.outer_step is None,
            independent_workers=self.job.independent_workers,
        )
        if found is None and self.scenario.strategy.sync.outer_step is not None:
            found = piled_up(self.job.outer_communication_s() / self.step_time)
        if found is not None:
            return found
        carried = self.link_loads.shares(self.job.network.capacities).max(initial=0.0)
        if carried <= _MOST_LINK_SHARE:
            return None
        return f"steps send {carried:.1%} of what links carry in them"

    @property
    def scenario(self) -> Scenario:
        """The scenario that was simulated."""
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
        """Seconds in which the traffic of a step is sent once.

        Asynchronous workers each send at their own pace. A collective of all workers is as frequent
        as the steps of the worker furthest ahead, which starts it; late workers take part.
        """
        if not self.job.own_pace:
            return self.step_time
        if self.job.independent_workers:
            return self.steps.time_of_all()
        # The earliest end of a step belongs to the worker furthest ahead.
        furthest = np.cumsum(self.all_steps.step, axis=0).min(axis=1)
        warmup = self.scenario.run.warmup
        begun = furthest[warmup - 1] if warmup else 0.0
        return float(furthest[-1] - begun) / len(self.steps.step)

    @property
    def recorded(self) -> range:
        """The steps whose intervals were recorded."""
        if self._timeline is None:
            return range(0)
        steps, warmup = self._timeline.steps, self.scenario.run.warmup
        return range(steps.start - warmup, steps.stop - warmup)

    @property
    def log(self) -> Log:
        """The log of versions read and given in all steps; it must have been recorded."""
        assert self._log is not None, "the run keeps no versions"
        return self._log

    def intervals(
        self, step: int | None = None, workers: int | Collection[int] | None = None
    ) -> list[Interval]:
        """Return the intervals of ``workers`` in a recorded step; None for all of either.

        An int for ``workers`` means that many, from worker 0 on.

        Sorted by worker, stream and time, in s from the start of the run. Raises DpsimError for a
        step that was not recorded.
        """
        steps = self.recorded if step is None else [step]
        if self._timeline is None or steps[0] not in self.recorded:
            raise DpsimError(f"step {steps[0]} must be recorded, but the run keeps none of it")
        warmup = self.scenario.run.warmup
        if workers is None or isinstance(workers, int):
            workers = range(self.job.workers if workers is None else workers)
        return self._timeline.intervals((warmup + each for each in steps), workers)

    def extremes(self) -> dict[str, int]:
        """Return the workers with the least, median and most computing in the first recorded step.

        The keys are "fastest", "typical" and "slowest". If workers run at their own pace, whole
        steps are compared.
        """
        steps = self.steps.step if self.job.own_pace else self.steps.compute
        # Stable, so that every machine shows the same ones of equally fast workers.
        order = np.argsort(steps[self.recorded.start], kind="stable")
        return {
            "typical": int(order[(len(order) - 1) // 2]),
            "slowest": int(order[-1]),
            "fastest": int(order[0]),
        }

    def boundaries(self) -> FloatArray:
        """Return when each worker's recorded steps begin, and when the last of them ends (s).

        Shape (recorded steps + 1, workers); times are from the start of the run.
        """
        warmup = self.scenario.run.warmup
        ends = np.cumsum(self.all_steps.step[: warmup + self.recorded.stop], axis=0)
        bounds = np.vstack([np.zeros(self.job.workers), ends])
        return np.asarray(bounds[warmup + self.recorded.start :])

    @limited()
    def link_transfers(self) -> OnLinks:
        """Return the transfers of the recorded steps on each link, with their times.

        All workers must have been recorded.
        """
        from dpsim.engine.link_transfers import link_transfers

        first = self.scenario.run.warmup + self.recorded.start
        return link_transfers(self.job, self.intervals(), first)

    @cached_property
    def link_loads(self) -> LinkLoads:
        """Bytes that each link carries in a step on average."""
        return self.traffic.links

    @cached_property
    def traffic(self) -> StepTraffic:
        """The mean traffic of a step."""
        return step_traffic(self.job, self.time_between_sends)

    @cached_property
    @limited()
    def result(self) -> Result:
        """The result of the run."""
        return answer(
            self.job,
            self.steps,
            self.traffic,
            self.engine,
            step_time=self.step_time,
            unsettled=self.unsettled,
            notes=self.notes,
        )


def try_simulate(scenario: Scenario, budget: Budget, *, quick: bool = False) -> Result | DpsimError:
    """Return the prediction of ``scenario``, or the error if there is none.

    It is a FailedError if the ``budget`` of time, or this machine's memory, is too small.
    ``quick``: see `run_scenario`.
    """
    try:
        with budget.part():
            return run_scenario(scenario, quick=quick).result
    except DpsimError as error:
        return error
