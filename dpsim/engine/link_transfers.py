"""What each link carries, from when to when.

The transfers of recorded steps laid on the links that they cross.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dpsim.engine.job import Job
from dpsim.engine.link_loads import collective_loads
from dpsim.engine.timeline import Interval
from dpsim.strategy.aggregation import ParameterServerConfig
from dpsim.topology import Routes


class Transfer(NamedTuple):
    """``nbytes`` of ``name`` cross a link from ``start`` to ``end`` (s)."""

    start: float
    end: float
    name: str
    nbytes: float


# Transfers by the number of the capacity.
OnLinks = dict[int, list[Transfer]]


def link_transfers(job: Job, intervals: Sequence[Interval], step: int) -> OnLinks:
    """The transfers of all workers' ``intervals``, which begin in step ``step`` (warm-up counted),
    by link and time.

    A collective's bytes are on each link from when the last worker enters it until the last has
    left.
    """
    sent = [each for each in intervals if each.stream == "communication"]
    found: OnLinks = defaultdict(list)
    for link, transfer in _alone(job, sent) if job.acts_alone else _together(job, sent, step):
        found[link].append(transfer)
    return {link: sorted(found[link]) for link in sorted(found)}


def _together(job: Job, sent: Sequence[Interval], step: int) -> Iterator[tuple[int, Transfer]]:
    """Collectives: the loads that their models tell.

    The k-th of a name at a worker is that of the k-th step that has it.
    """
    spans: dict[tuple[str, int], tuple[float, float]] = {}
    times: dict[tuple[int, str], int] = defaultdict(int)
    for each in sent:
        turn = times[each.worker, each.name]
        times[each.worker, each.name] += 1
        start, end = spans.get((each.name, turn), (each.start, each.end))
        spans[each.name, turn] = (max(start, each.start), max(end, each.end))
    sizes = {
        f"{call.name}: {name}": (name, size)
        for all_ in job.calls_of.values()
        for call in all_
        for name, size in call.stages
    }
    for (name, turn), (start, end) in spans.items():
        collective, nbytes = sizes[name]
        loads, _ = collective_loads(job, collective, nbytes, step + turn)
        yield from (
            (int(link), Transfer(start, end, name, float(loads[link])))
            for link in np.flatnonzero(loads)
        )


def _alone(job: Job, sent: Sequence[Interval]) -> Iterator[tuple[int, Transfer]]:
    """Pushes and pulls, or exchanges of pairs: the routes of each worker's own."""
    sizes = {
        **{f"{call.name}: {name}": size for call in job.calls(0) for name, size in call.stages},
        "pull": sum(size for call in job.calls(0) for name, size in call.stages if name == "pull"),
    }
    whole = sum(size for call in job.calls(0) for _, size in call.stages)
    aggregation = job.scenario.strategy.aggregation
    servers = (
        aggregation.place(job.setting) if isinstance(aggregation, ParameterServerConfig) else None
    )
    for each in sent:
        if servers is None:
            pair = np.array([each.worker, int(each.name.rpartition(" ")[2])])
            routes, rows, nbytes = job.cluster.routes(pair, pair[::-1]), [0, 1], whole
        else:
            routes, rows = (
                (servers.from_servers if each.name == "pull" else servers.to_servers),
                [each.worker],
            )
            nbytes = sizes[each.name]
        yield from (
            (link, Transfer(each.start, each.end, each.name, share * nbytes))
            for row in rows
            for link, share in _crossed(routes, row)
        )


def _crossed(routes: Routes, row: int) -> Iterator[tuple[int, float]]:
    """The capacities of one route, and the share of its bytes that crosses each."""
    for place, link in enumerate(routes.links[row].tolist()):
        if link >= 0:
            yield link, 1.0 if routes.share is None else float(routes.share[row, place])
