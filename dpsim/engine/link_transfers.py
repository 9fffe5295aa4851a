"""What each link carries, from when to when.

The transfers of recorded steps laid on the links that they cross.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from dpsim.engine.job import Job
from dpsim.engine.link_loads import collective_loads
from dpsim.engine.timeline import Interval
from dpsim.strategy.aggregation import Meeting, ParameterServerConfig
from dpsim.topology import Routes


class Transfer(NamedTuple):
    """``nbytes`` of ``name`` cross a link from ``start`` to ``end`` (s)."""

    start: float
    end: float
    name: str
    nbytes: float


# Transfers by the number of the capacity, in the order of their times.
OnLinks = dict[int, list[Transfer]]


def link_transfers(job: Job, intervals: Sequence[Interval], step: int) -> OnLinks:
    """The transfers of ``intervals``, laid on the links that they cross.

    ``intervals`` are those of all workers, from step ``step`` on (warm-up counted). A collective's
    bytes are on each link from when the last worker enters it until the last has left.
    """
    sent = [each for each in intervals if each.stream == "communication"]
    found: OnLinks = defaultdict(list)
    if not job.acts_alone:
        transfers = _of_collectives(job, sent, step)
    elif job.meeting is Meeting.AT_SERVERS:
        aggregation = cast("ParameterServerConfig", job.scenario.strategy.aggregation)
        transfers = _to_servers(job, aggregation, sent)
    else:
        transfers = _between_pairs(job, sent)
    for link, transfer in transfers:
        found[link].append(transfer)
    return {link: sorted(found[link]) for link in sorted(found)}


def overlapping(transfers: Sequence[Transfer]) -> list[list[Transfer]]:
    """Transfers of a link in order, those that overlap together."""
    groups: list[list[Transfer]] = []
    until = -np.inf  # the latest end so far: a long transfer may outlast those that began after it
    for each in transfers:
        if each.start < until:
            groups[-1].append(each)
        else:
            groups.append([each])
        until = max(until, each.end)
    return groups


def load_over_time(transfers: Sequence[Transfer], rate: float) -> list[tuple[float, float]]:
    """When the load of a link changes, and to what share of its ``rate`` (B/s).

    Each transfer counts with its mean over its time. Its rate varies while it shares the link, so
    means may add up to more than there is: the link then is full.
    """
    changes: dict[float, float] = defaultdict(float)
    for each in transfers:
        # None divides by 0: what took no time is not among the intervals.
        share = each.nbytes / (each.end - each.start) / rate
        changes[each.start] += share
        changes[each.end] -= share
    times = sorted(changes)
    shares = np.cumsum([changes[time] for time in times])
    # Rounded, since what is added and taken off again leaves a last digit where nothing flows.
    shown = np.clip(shares, 0.0, 1.0).round(9)
    return list(zip(times, shown.tolist(), strict=True))


def _of_collectives(
    job: Job, sent: Sequence[Interval], step: int
) -> Iterator[tuple[int, Transfer]]:
    """Collectives: the loads that their models tell."""
    called: dict[str, tuple[str, int]] = {}
    for calls in job.calls_of.values():
        for call in calls:
            for collective, nbytes in call.stages:
                called[f"{call.name}: {collective}"] = collective, nbytes
    for (name, turn), (start, end) in _spans(sent).items():
        collective, nbytes = called[name]
        loads = collective_loads(job, collective, nbytes, step + turn)
        for link in np.flatnonzero(loads):
            yield int(link), Transfer(start, end, name, float(loads[link]))


def _spans(sent: Sequence[Interval]) -> dict[tuple[str, int], tuple[float, float]]:
    """When the last worker entered each collective and when the last left it.

    By its name and its turn: the k-th of a name at a worker is that of the k-th step that has it.
    """
    spans: dict[tuple[str, int], tuple[float, float]] = {}
    turns: dict[tuple[int, str], int] = defaultdict(int)
    for each in sent:
        turn = turns[each.worker, each.name]
        turns[each.worker, each.name] += 1
        start, end = spans.get((each.name, turn), (each.start, each.end))
        # The last start, too: who enters early mostly waits for the others.
        spans[each.name, turn] = (max(start, each.start), max(end, each.end))
    return spans


def _to_servers(
    job: Job, aggregation: ParameterServerConfig, sent: Sequence[Interval]
) -> Iterator[tuple[int, Transfer]]:
    """Pushes and pulls of each worker. All that it pulls in a step is one transfer."""
    servers = aggregation.place(job.setting)
    sizes: dict[str, int] = {}
    pulled = 0
    for call in job.calls(0):
        for stage, nbytes in call.stages:
            sizes[f"{call.name}: {stage}"] = nbytes
            if stage == "pull":
                pulled += nbytes
    for each in sent:
        if each.name == "pull":
            yield from _on_route(servers.from_servers, each.worker, each, pulled)
        else:
            yield from _on_route(servers.to_servers, each.worker, each, sizes[each.name])


def _between_pairs(job: Job, sent: Sequence[Interval]) -> Iterator[tuple[int, Transfer]]:
    """Exchanges of pairs, both ways; the name of each ends with the partner's rank."""
    nbytes = sum(size for call in job.calls(0) for _, size in call.stages)
    for each in sent:
        partner = int(each.name.rpartition(" ")[2])
        pair = np.array([each.worker, partner])
        routes = job.cluster.routes(pair, pair[::-1])
        for way in (0, 1):
            yield from _on_route(routes, way, each, nbytes)


def _on_route(
    routes: Routes, row: int, sent: Interval, nbytes: int
) -> Iterator[tuple[int, Transfer]]:
    """What was sent on the capacities of one route, with the share of it that crosses each."""
    for place, link in enumerate(routes.links[row].tolist()):
        if link < 0:  # shorter routes are filled up
            continue
        share = 1.0 if routes.share is None else float(routes.share[row, place])
        yield link, Transfer(sent.start, sent.end, sent.name, share * nbytes)
