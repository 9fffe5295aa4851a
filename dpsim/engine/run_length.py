"""How many steps are simulated: whole periods of averaging, and a warm-up that fills pipes.

Also whether there is room for what so many steps leave behind.
"""

from __future__ import annotations

from dpsim.base.budget import check_memory
from dpsim.base.errors import DpsimError
from dpsim.disturbance import LognormalJitterConfig
from dpsim.scenario import Scenario
from dpsim.strategy.aggregation import Meeting

MOST_RECORDS = 20_000_000  # steps x workers that are kept
_LEAST_JITTER = LognormalJitterConfig(kind="lognormal", sigma=0.01)
_BYTES_A_WORKER = 2_500.0
_BYTES_A_RECORD = 8.0 * 12  # twelve arrays of a number a step and worker


def settled_length(scenario: Scenario) -> Scenario:
    """``scenario`` with as many steps and as long a warm-up as its synchronisation needs."""
    lag, overlap = _behind(scenario)
    scenario = _in_whole_periods(scenario)
    run, least = scenario.run, max(lag, overlap)
    # Workers who may run further ahead than the run is long never wait for what lags.
    if not least or run.warmup > least or lag > run.warmup + run.steps:
        return scenario
    # Step t waits for what was exchanged in step t - lag - 1: from step lag + 1 on there is one.
    return warming_up(scenario, least + 1)


def _behind(scenario: Scenario) -> tuple[int, int]:
    """By how many steps what is exchanged lags, and for how many a group's fragment travels.

    A warm-up of more fills the pipes: what is on its way as the counted steps end is then made up
    for by what was as they began. Where a run is counted from its start, its lags are too.
    """
    sync, aggregation = scenario.strategy.sync, scenario.strategy.aggregation
    overlap = 0 if sync.outer_step is None else sync.outer_step.overlap
    together = aggregation.meeting is Meeting.TOGETHER
    return sync.lag if together and scenario.run.warmup else 0, overlap


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


def warming_up(scenario: Scenario, steps: int) -> Scenario:
    """``scenario`` with the first ``steps`` steps as its warm-up."""
    settings = scenario.run.model_copy(update={"warmup": steps})
    return scenario.model_copy(update={"run": settings})


def going_on(scenario: Scenario, steps: int) -> Scenario:
    """``scenario`` with ``steps`` steps, of which the first half is its warm-up.

    Computing that never varies does so by 1 %, as little as was ever measured of real workers.
    """
    settings = scenario.run.model_copy(update={"warmup": steps // 2, "steps": steps - steps // 2})
    disturbance = scenario.disturbance
    if disturbance.jitter is None and scenario.measured_jitter is None:
        disturbance = disturbance.model_copy(update={"jitter": _LEAST_JITTER})
    return scenario.model_copy(update={"run": settings, "disturbance": disturbance})


def has_events(scenario: Scenario) -> bool:
    """Whether something happens at a time or step of its own, which a longer warm-up would hide."""
    switch = scenario.strategy.sync.first_own_step
    return bool(scenario.disturbance.links) or switch > scenario.run.warmup


def averaging_period(scenario: Scenario) -> int:
    """Steps between two averagings of models; 1 where workers share one, which nobody averages."""
    sync = scenario.strategy.sync
    if sync.one_version:
        return 1
    workload, workers = scenario.workload, scenario.cluster.ranks
    samples = workload.samples_per_gpu
    epoch = None if workload.dataset is None else workload.dataset.epoch(workers, samples).steps
    return sync.period(workers * samples, epoch)


def exchange_cycle(scenario: Scenario) -> int:
    """Steps after which exchanges come again: a period of averaging, or one of outer steps."""
    outer = scenario.strategy.sync.outer_step
    return averaging_period(scenario) * (1 if outer is None else outer.every)


def counted_steps(scenario: Scenario) -> int:
    """How many steps count: those asked for, or a whole period of averaging if that is longer.

    A shorter run would hold no averaging, or not what it costs a step.
    """
    run, cycle = scenario.run, exchange_cycle(scenario)
    last = run.warmup + run.steps - 1
    own_steps = last >= scenario.strategy.sync.first_own_step
    return cycle if own_steps and cycle > run.steps else run.steps


def bytes_held(steps: int, workers: int) -> float:
    """Bytes of this machine that a simulation keeps, about: for each worker and for its steps."""
    return _BYTES_A_WORKER * workers + _BYTES_A_RECORD * steps * workers


def check_length(scenario: Scenario) -> None:
    """Raise DpsimError where the run keeps more than is allowed, or more than this machine has."""
    workers, counted = scenario.cluster.ranks, counted_steps(scenario)
    steps = scenario.run.warmup + counted
    if steps * workers > MOST_RECORDS:
        whole_period = (
            ""
            if counted == scenario.run.steps
            else ", of which a whole period of averaging is simulated"
        )
        raise DpsimError(
            f"run: steps + warmup must be at most {MOST_RECORDS // workers} for {workers} workers "
            f"({MOST_RECORDS:,} records in all), but got {steps}{whole_period}"
        )
    check_memory(bytes_held(steps, workers), f"simulating {workers:,} workers")
