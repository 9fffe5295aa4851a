"""Queries of the explanatory pages to the library: schedules, strategies, weights."""

from __future__ import annotations

import json

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
from dpsim.studies.growing_batch import Growth, growing_batch
from dpsim.studies.lanes import VIEWS, Timelines, four_workers, slow_last, timelines_of
from dpsim.studies.replay import Paths, weight_paths
from dpsim.studies.walkthrough import Walkthrough, walk_through
from dpsim.topology import Network, UniformSwitch, build_cluster

_AVERAGED = {
    "SMA": {"aggregation": {"kind": "allreduce"}, "sync": {"kind": "sma"}},
    "gossip on a ring": {"aggregation": {"kind": "gossip"}, "sync": {"kind": "bsp"}},
    "asynchronous gossip": {"aggregation": {"kind": "gossip"}, "sync": {"kind": "asp"}},
}

# A model so small that its weights fit in a plane, with different starts.
_PLANE_MODEL = (
    "replay.model=softmax",
    "replay.own_start=true",
    "replay.batch=4",
    "replay.learning_rate=0.3",
    "replay.steps=120",
    "replay.points=60",
)


def walkthroughs(
    algorithms: tuple[str, ...],
    operation: str,
    size: str,
    where: Spec | tuple[int, str, str],
    report: Report,
) -> list[Walkthrough]:
    """Return each algorithm round by round, on vectors of ``size``.

    ``where``: the cluster of a scenario, or a switch of (ranks, rate, latency). Raises DpsimError.
    """
    network: Network
    costs = MessageCosts()
    if isinstance(where, Spec):
        given = scenario(where)
        network = build_cluster(given.cluster)
        costs = MessageCosts(0.0, reduction_cost(given.cluster.parts[0].accelerator))
    else:
        ranks, rate, latency = where
        network = UniformSwitch(ranks, parse(rate, RATE), parse(latency, TIME))
    walkthroughs = []
    for done, name in enumerate(algorithms):
        report(done, len(algorithms))
        schedule = schedule_on(network, algorithm(name, operation))
        walkthroughs.append(walk_through(schedule, round(parse(size, DATA)), network, costs))
    return walkthroughs


def timelines(spec: Spec, of: str, slower: str, report: Report) -> Timelines:
    """Return the strategies of a view (`VIEWS`) over time; worker 3 takes ``slower`` times as long.

    Raises DpsimError.
    """
    return timelines_of(
        lambda options: scenario(spec.with_options(options)),
        of,
        slower=float(slower),
        progress=lambda done: report(done, len(VIEWS[of].strategies)),
    )


def weights(spec: Spec, slower: str, report: Report) -> dict[str, Paths]:
    """Return the paths of four workers' weights with each way to average models.

    Raises DpsimError.
    """
    slow = f"disturbance.slow={slow_last(slower)}"
    spec = spec.with_options([*four_workers(scenario(spec)), slow, *_PLANE_MODEL])
    found = {}
    for name, strategy in _AVERAGED.items():
        # JSON is YAML in one line, as a change of a value requires.
        given = scenario(spec.with_value("strategy", json.dumps(strategy)))
        found[name] = weight_paths(given, lambda _, done, total: report(done, total))
    return found


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
