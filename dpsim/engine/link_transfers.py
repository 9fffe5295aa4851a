"""The transfers of recorded steps on each link over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, cast

import numpy as np

from dpsim.engine.job import Job
from dpsim.engine.link_loads import collective_loads
from dpsim.engine.timeline import Interval
from dpsim.strategy.aggregation import Coordination, ParameterServerConfig
from dpsim.topology import Routes


class Transfer(NamedTuple):
    """``nbytes`` of ``name`` that cross a link from ``start`` to ``end`` (s)."""

    start: float
    end: float
    name: str
    nbytes: float


# Transfers by the number of the capacity, sorted by time.
OnLinks = dict[int, list[Transfer]]


def link_transfers(job: Job, intervals: Sequence[Interval], step: int) -> OnLinks:
    """Return the transfers of ``intervals``, mapped to the links that they cross.

    ``intervals`` are all workers' intervals from step ``step`` on (including warm-up). A
    collective's bytes are taken to be on each link from the last worker's entry to its end.
    """
    sent = [each for each in intervals if each.stream == "communication"]
    found: OnLinks = defaultdict(list)
    if not job.independent_workers:
        transfers = _collective_transfers(job, sent, step)
    elif job.coordination is Coordination.SERVERS:
        aggregation = cast("ParameterServerConfig", job.scenario.strategy.aggregation)
        transfers = _to_servers(job, aggregation, sent)
    else:
        transfers = _between_pairs(job, sent)
    for link, transfer in transfers:
        found[link].append(transfer)
    return {link: sorted(found[link]) for link in sorted(found)}


def overlapping(transfers: Sequence[Transfer]) -> list[list[Transfer]]:
    """Group transfers of a link, given in order, into runs that overlap."""
    groups: list[list[Transfer]] = []
    until = -np.inf  # the latest end so far: a long transfer may outlast later ones
    for each in transfers:
        if each.start < until:
            groups[-1].append(each)
        else:
            groups.append([each])
        until = max(until, each.end)
    return groups


def load_over_time(transfers: Sequence[Transfer], rate: float) -> list[tuple[float, float]]:
    """Return when the load of a link changes, and to what share of its ``rate`` (B/s).

    Each transfer counts with its mean rate. Its actual rate varies while it shares the link, so the
    means may add up to more than the link's rate: the link is then full.
    """
    changes: dict[float, float] = defaultdict(float)
    for each in transfers:
        # No division by 0, because intervals of no length are left out.
        share = each.nbytes / (each.end - each.start) / rate
        changes[each.start] += share
        changes[each.end] -= share
    times = sorted(changes)
    shares = np.cumsum([changes[time] for time in times])
    # Rounded, because sums that should be 0 have a rounding error.
    shown = np.clip(shares, 0.0, 1.0).round(9)
    return list(zip(times, shown.tolist(), strict=True))


def _collective_transfers(
    job: Job, sent: Sequence[Interval], step: int
) -> Iterator[tuple[int, Transfer]]:
    """Yield the transfers of collectives, with the loads that their models give."""
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
    """Return when the last worker entered each collective and when the last left it.

    By name and turn: the k-th interval of a name at a worker belongs to the k-th step that has it.
    """
    spans: dict[tuple[str, int], tuple[float, float]] = {}
    turns: dict[tuple[int, str], int] = defaultdict(int)
    for each in sent:
        turn = turns[each.worker, each.name]
        turns[each.worker, each.name] += 1
        start, end = spans.get((each.name, turn), (each.start, each.end))
        # The last start, because a worker that enters early mostly waits for the others.
        spans[each.name, turn] = (max(start, each.start), max(end, each.end))
    return spans


def _to_servers(
    job: Job, aggregation: ParameterServerConfig, sent: Sequence[Interval]
) -> Iterator[tuple[int, Transfer]]:
    """Yield the pushes and pulls of each worker; all pulls of a step are one transfer."""
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
    """Yield the exchanges of pairs, both ways; interval names end with the partner's rank."""
    nbytes = sum(size for call in job.calls(0) for _, size in call.stages)
    for each in sent:
        partner = int(each.name.rpartition(" ")[2])
        pair = np.array([each.worker, partner])
        routes = job.cluster.routes(pair, pair[::-1])
        for direction in (0, 1):
            yield from _on_route(routes, direction, each, nbytes)


def _on_route(
    routes: Routes, row: int, sent: Interval, nbytes: int
) -> Iterator[tuple[int, Transfer]]:
    """Yield a transfer on each link of one route, with the share of the bytes that crosses it."""
    for place, link in enumerate(routes.links[row].tolist()):
        if link < 0:  # padding of shorter routes
            continue
        share = 1.0 if routes.share is None else float(routes.share[row, place])
        yield link, Transfer(sent.start, sent.end, sent.name, share * nbytes)
