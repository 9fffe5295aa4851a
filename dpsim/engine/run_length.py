"""The number of steps to simulate: whole averaging periods, and a warm-up that fills pipelines.

It also checks that the records of that many steps fit in memory.
"""

from __future__ import annotations

from dpsim.base.budget import check_memory
from dpsim.base.errors import DpsimError
from dpsim.disturbance import LognormalJitterConfig
from dpsim.scenario import Scenario
from dpsim.strategy.aggregation import Coordination

MOST_RECORDS = 20_000_000  # steps x workers
_LEAST_JITTER = LognormalJitterConfig(kind="lognormal", sigma=0.01)
_BYTES_A_WORKER = 2_500.0
_BYTES_A_RECORD = 8.0 * 12  # twelve arrays with a number per step and worker


def settled_length(scenario: Scenario) -> Scenario:
    """Return ``scenario`` with the number of steps and warm-up that its synchronisation needs."""
    sync, aggregation = scenario.strategy.sync, scenario.strategy.aggregation
    scenario = _in_whole_periods(scenario)
    run = scenario.run
    # For this many steps exchanges lag, or a group's fragment is in flight. A longer warm-up fills
    # the pipeline, so that data in flight at the end of the counted steps balances data in flight
    # at their start. A run that is counted from its start includes its lags.
    lag = sync.lag if aggregation.coordination is Coordination.COLLECTIVE and run.warmup else 0
    least = max(lag, 0 if sync.outer_step is None else sync.outer_step.overlap)
    # Workers that may run ahead for longer than the run never wait for lagging exchanges.
    if not least or run.warmup > least or lag > run.warmup + run.steps:
        return scenario
    # Step t waits for the exchange of step t - lag - 1, which exists from step lag + 1 on.
    return warming_up(scenario, least + 1)


def _in_whole_periods(scenario: Scenario) -> Scenario:
    """Return ``scenario`` with its steps rounded up to whole averaging periods, if it has one.

    A part of a period would have too many or too few averagings for its steps. A run that begins
    before the switch to local steps is not changed.
    """
    run, cycle = scenario.run, exchange_cycle(scenario)
    if run.steps < cycle or run.warmup < scenario.strategy.sync.first_own_step:
        return scenario
    whole = run.model_copy(update={"steps": run.steps + -run.steps % cycle})
    return scenario.model_copy(update={"run": whole})


def warming_up(scenario: Scenario, steps: int) -> Scenario:
    """Return ``scenario`` with the first ``steps`` steps as its warm-up."""
    settings = scenario.run.model_copy(update={"warmup": steps})
    return scenario.model_copy(update={"run": settings})


def continued(scenario: Scenario, steps: int) -> Scenario:
    """Return ``scenario`` with ``steps`` steps, the first half of them warm-up.

    Without jitter, computing varies by 1 %, the smallest variation measured of real workers.
    """
    settings = scenario.run.model_copy(update={"warmup": steps // 2, "steps": steps - steps // 2})
    disturbance = scenario.disturbance
    if disturbance.jitter is None and scenario.measured_jitter is None:
        disturbance = disturbance.model_copy(update={"jitter": _LEAST_JITTER})
    return scenario.model_copy(update={"run": settings, "disturbance": disturbance})


def has_events(scenario: Scenario) -> bool:
    """Return whether a longer warm-up would hide an event at a fixed time or step."""
    switch = scenario.strategy.sync.first_own_step
    return bool(scenario.disturbance.links) or switch > scenario.run.warmup


def averaging_period(scenario: Scenario) -> int:
    """Return the steps between two averagings of models; 1 if workers share one model."""
    sync = scenario.strategy.sync
    if sync.one_version:
        return 1
    workload, workers = scenario.workload, scenario.cluster.ranks
    samples = workload.samples_per_gpu
    epoch = None if workload.dataset is None else workload.dataset.epoch(workers, samples).steps
    return sync.period(workers * samples, epoch)


def exchange_cycle(scenario: Scenario) -> int:
    """Return the steps after which exchanges repeat: a period of averaging or of outer steps."""
    outer = scenario.strategy.sync.outer_step
    return averaging_period(scenario) * (1 if outer is None else outer.every)


def counted_steps(scenario: Scenario) -> int:
    """Return how many steps count: those asked for, or a whole averaging period if longer.

    A shorter run would contain no averaging, or misstate its cost per step.
    """
    run, cycle = scenario.run, exchange_cycle(scenario)
    last = run.warmup + run.steps - 1
    own_steps = last >= scenario.strategy.sync.first_own_step
    return cycle if own_steps and cycle > run.steps else run.steps


def bytes_held(steps: int, workers: int) -> float:
    """Return about how many bytes of this machine's memory a simulation keeps."""
    return _BYTES_A_WORKER * workers + _BYTES_A_RECORD * steps * workers


def check_length(scenario: Scenario) -> None:
    """Raise DpsimError if the run has too many records, or too many for this machine's memory."""
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
