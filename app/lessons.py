"""Queries of the explanatory pages to the library: schedules, strategies, weights."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

from app.answers import few_steps
from app.reading import scenario, with_fitted_times
from app.spec import Spec
from app.work import Report
from dpsim.base.errors import DpsimError
from dpsim.base.units import DATA, RATE, TIME, parse
from dpsim.collectives import algorithm
from dpsim.convergence import check_batch
from dpsim.engine import reduction_cost, simulate
from dpsim.network import MessageCosts, schedule_on
from dpsim.scenario import Scenario
from dpsim.studies.growing_batch import Growth, growing_batch
from dpsim.studies.lanes import SSP, SYNCHRONISED, VIEWS, Lane, Window, windows
from dpsim.studies.lanes import lanes as possible_lanes
from dpsim.studies.replay import Paths, weight_paths
from dpsim.studies.walkthrough import Walkthrough, walk
from dpsim.topology import Network, UniformSwitch, build_cluster

_AVERAGED = {
    "SMA": {"aggregation": {"kind": "allreduce"}, "sync": {"kind": "sma"}},
    "gossip on a ring": {"aggregation": {"kind": "gossip"}, "sync": {"kind": "bsp"}},
    "asynchronous gossip": {"aggregation": {"kind": "gossip"}, "sync": {"kind": "asp"}},
}


def walked(
    algorithms: tuple[str, ...],
    operation: str,
    size: str,
    switch: tuple[int, str, str] | None,
    spec: Spec | None,
    report: Report,
) -> list[Walkthrough]:
    """Return each algorithm round by round, on vectors of ``size``.

    It runs on a ``switch`` of (ranks, rate, latency), or on the cluster of ``spec``. Raises
    DpsimError.
    """
    network: Network
    costs = MessageCosts()
    if switch is None:
        assert spec is not None, "either a switch or a scenario"
        given = scenario(spec)
        network = build_cluster(given.cluster)
        costs = MessageCosts(0.0, reduction_cost(given.cluster.parts[0].accelerator))
    else:
        ranks, rate, latency = switch
        network = UniformSwitch(ranks, parse(rate, RATE), parse(latency, TIME))
    walks = []
    for done, name in enumerate(algorithms):
        report(done, len(algorithms))
        schedule = schedule_on(network, algorithm(name, operation))
        walks.append(walk(schedule, round(parse(size, DATA)), network, costs))
    return walks


def lanes(spec: Spec, of: str, report: Report) -> list[Lane]:
    """Return the first workers over time with each strategy of a view (`VIEWS`).

    Leaves out strategies that are incompatible with the workload of ``spec``. Raises DpsimError
    where none is left.
    """
    view = VIEWS[of]
    found, refused = possible_lanes(
        view.strategies,
        partial(_with, spec),
        view.workers,
        lambda done: report(done, len(view.strategies)),
    )
    if not found:
        raise next(reversed(refused.values()))
    return found


def read_windows(spec: Spec, report: Report) -> tuple[Window, ...]:
    """Return the updates of others that worker 0 has seen as it begins each of SSP's steps."""
    # Too short to show progress, but the call notices cancellation.
    report(0, 0)
    return windows(_with(spec, SYNCHRONISED[SSP]), 0)


def weights(spec: Spec, report: Report) -> dict[str, Paths]:
    """Return the paths of the workers' weights with each way to average models."""
    return {
        name: weight_paths(_with(spec, strategy), lambda _, done, total: report(done, total))
        for name, strategy in _AVERAGED.items()
    }


def _with(spec: Spec, strategy: Mapping[str, Any]) -> Scenario:
    # JSON is YAML in one line, as a change of a value requires.
    return scenario(spec.with_value("strategy", json.dumps(strategy)))


def grown(spec: Spec, factor: int, report: Report) -> tuple[Growth, str]:
    """Return a growing batch, with advice on its largest. Raises DpsimError without a task."""
    given = scenario(few_steps(with_fitted_times(spec)))
    target = simulate(given).to_target
    if target is None or target.task.samples is None:
        raise DpsimError(
            "the size of an epoch must be known, but no task is known of this model and optimiser"
        )
    growth = growing_batch(given, target.task.samples, factor, progress=report)
    return growth, check_batch(target.task, growth.growing[-1].global_batch).text
