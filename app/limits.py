"""Rough estimates of the time and memory of a simulation.

A simulation too large for a page is refused with the numbers.

Orders of magnitude, measured on two cores. A simulation takes 0.2 s to start. A collective takes
0.1 ms and 0.5 us per worker if its rounds repeat one pattern (a ring) or follow a library's law.
Otherwise it takes 0.5 us more for each worker in each round. By flows it takes 1.2 us and 420 B per
flow. Asynchronous workers, or servers, take 0.5 ms per message.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, log2

from dpsim.base.errors import DpsimError
from dpsim.engine import bytes_held
from dpsim.scenario import Scenario
from dpsim.strategy.aggregation import Meeting
from dpsim.workload import Program

MOST_SECONDS = 120.0
MOST_BYTES = 2e9
TOO_LARGE = "too large for this page"
_MOST_WORKERS = 2**20
# Algorithms whose rounds repeat one pattern, or are not simulated; as many rounds as workers.
_REPEATING = ("all-to-all", "master-worker", "ring", "round-robin", "auto")


@dataclass(frozen=True, slots=True)
class Estimate:
    """Rough seconds and bytes of a simulation."""

    seconds: float
    bytes: float


def estimate(scenario: Scenario) -> Estimate:
    """Estimate the cost of simulating ``scenario``.

    Raises DpsimError for more workers than the estimate covers.
    """
    workers = scenario.cluster.ranks
    if workers > _MOST_WORKERS:
        raise DpsimError(
            f"cluster: must have at most {_MOST_WORKERS:,} GPUs on this page, but has {workers:,}"
        )
    # Left out: building the cluster and its routes, a transport's own rules, several collectives at
    # once on shared links. Orders of magnitude suffice to decide what to refuse.
    steps = scenario.run.steps + scenario.run.warmup
    held = bytes_held(steps, workers) + _flows(scenario) * 420.0
    return Estimate(0.2 + steps * _messages(scenario) * _seconds_a_message(scenario), held)


def check(scenario: Scenario) -> None:
    """Raise DpsimError, with the numbers, where simulating ``scenario`` is too much for a page."""
    needs = estimate(scenario)
    if needs.seconds > MOST_SECONDS or needs.bytes > MOST_BYTES:
        steps = scenario.run.steps + scenario.run.warmup
        raise DpsimError(
            f"{TOO_LARGE}: simulating {scenario.cluster.ranks:,} GPUs for {steps:,} "
            f"steps would take about {needs.seconds:,.0f} s and {needs.bytes / 1e9:,.1f} GB, and "
            f"the page allows {MOST_SECONDS:.0f} s and {MOST_BYTES / 1e9:.0f} GB: take fewer "
            "steps or nodes, or use dpsim run"
        )


def _messages(scenario: Scenario) -> int:
    """Return the largest number of collectives in a step.

    One for each bucket or layer of gradients, and the weights that sharding gathers in a pass.
    """
    model, strategy = scenario.build_model(), scenario.strategy
    # Repeated passes are not simulated one by one.
    one_pass = Program(len(model.layers), 1)
    batch, peers = scenario.workload.batch_per_gpu, strategy.peers(scenario.cluster.mesh)
    calls = strategy.aggregation.calls(model, one_pass, batch, peers)
    reduced = sum(call.payload == "gradients" for call in calls)
    return len(calls) - reduced + min(reduced, strategy.overlap.most_calls(model))


def _seconds_a_message(scenario: Scenario) -> float:
    workers, strategy = scenario.cluster.ranks, scenario.strategy
    at_servers = strategy.aggregation.meeting is Meeting.AT_SERVERS
    if at_servers or not strategy.sync.barrier:
        return 5e-4 * workers
    varying = 0 if _repeats(scenario) else _rounds(scenario)
    return 1e-4 + 5e-7 * workers * (1 + varying) + 1.2e-6 * _flows(scenario)


def _repeats(scenario: Scenario) -> bool:
    """Return whether the rounds of a collective repeat one pattern, of which one is simulated."""
    aggregation = scenario.strategy.aggregation
    own = aggregation.all_reduce
    return aggregation.shards or (own is not None and own.algorithm in _REPEATING)


def _rounds(scenario: Scenario) -> int:
    """Return the rounds of a collective: about the number of workers, or its logarithm."""
    workers = scenario.cluster.ranks
    return workers if _repeats(scenario) else 2 * ceil(log2(workers + 1))


def _flows(scenario: Scenario) -> int:
    """Return the number of transfers that are simulated one by one."""
    aggregation, workers = scenario.strategy.aggregation, scenario.cluster.ranks
    own = aggregation.all_reduce
    pairwise = own is not None and own.algorithm == "all-to-all"
    # Links that change during a message cannot be timed by rounds.
    disturbed = scenario.disturbance.links or scenario.disturbance.background
    if pairwise:
        return workers * workers
    if scenario.run.network_model == "flows" or disturbed:
        return workers * _rounds(scenario)
    return 0
