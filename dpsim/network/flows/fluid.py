"""Transfers as fluid flows in SimPy.

After its latency a flow moves at its max-min fair rate, which changes as others come and go.

All starts and ends of one instant go into one solve; where flows are many, only for those that
share a link with one that changed, directly or through others. Flows of one call that are alike in
route, latency and bytes are one flow with a weight, and links that all flows cross alike are one
link.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import simpy
from simpy.core import EventPriority

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.network.flows.equal_transfers import grouped
from dpsim.network.flows.flow_table import FlowTable
from dpsim.network.flows.link_classes import LinkClasses
from dpsim.network.maxmin import progressive_filling
from dpsim.topology import Routes

Done = Callable[[IntArray], None]
Reroute = Callable[[IntArray, float], Routes]

# SimPy runs events of one instant by priority: 0 urgent, 1 normal.
_AFTER_ALL_ELSE = EventPriority(2)

# Sharing anew among so few flows costs less than finding those that a change can reach.
_FEW = 1024


@dataclass(slots=True, eq=False)
class _Arrival:
    """Flows that are let in: those of one call and one latency, or one that was rerouted."""

    links: IntArray
    share: FloatArray
    size: FloatArray
    left: FloatArray
    weight: FloatArray
    batch: int
    group: IntArray

    @classmethod
    def of(
        cls,
        routes: Routes,
        left: FloatArray,
        size: FloatArray,
        weight: FloatArray,
        batch: int,
        group: IntArray,
    ) -> _Arrival:
        """Flows by ``routes``; those without any link have nothing to wait for."""
        if routes.share is None:
            share = np.ones(routes.links.shape)
            links = routes.links
        else:
            share = np.asarray(routes.share, dtype=np.float64)
            links = np.where(share > 0, routes.links, -1)
        # What crosses no link (inside one device) is there as soon as its latency is over.
        left = np.where((links < 0).all(axis=1), 0.0, left)
        return cls(links, share, size, left, weight, batch, group)


@dataclass(slots=True, eq=False)
class _Batch:
    """One call of `FluidNetwork.send`.

    It knows which of its transfers each group stands for, and how many groups are still under way.
    """

    members: list[IntArray] | None  # None: each transfer is a group of its own
    done: Done
    reroute: Reroute | None
    open: int

    def transfers(self, groups: IntArray) -> IntArray:
        """The transfers that these groups stand for."""
        if self.members is None:
            return groups
        return np.concatenate([self.members[group] for group in groups])


class FluidNetwork:
    """Capacities (B/s) shared by flows, inside a SimPy environment."""

    def __init__(self, env: simpy.Environment, capacities: FloatArray) -> None:
        self.env = env
        self.solves = 0
        self._links = LinkClasses(capacities)
        self._flows = FlowTable()
        self._arriving: list[_Arrival] = []
        self._batches: dict[int, _Batch] = {}
        self._calls = 0
        self._updated = env.now
        self._settling = False
        self._changed = np.zeros(len(capacities) + 1, dtype=bool)  # by class of links
        self._alarm: simpy.Event | None = None

    def send(
        self, routes: Routes, nbytes: FloatArray, done: Done, reroute: Reroute | None = None
    ) -> None:
        """Start one flow per route now: its latency first, then its bytes.

        ``done(indices)`` is called as flows of the call end. ``reroute(indices, left)`` is asked
        for a new route of equal flows, each with ``left`` B to go, when a link under them is cut
        (their latency is not paid again); without it they stop there. A bundle (a route with
        shares) competes as one flow; k equal transfers of 1/k of its bytes, all over the bundle's
        route, compete as the k flows that it stands for.
        """
        # Equal transfers share the network's rates equally and end together, so that one flow with
        # a weight stands for all of them, exactly.
        first, members = grouped(routes, nbytes)
        number = self._calls
        self._calls += 1
        self._batches[number] = _Batch(members, done, reroute, len(first))

        if members is None:
            weight = np.ones(len(first))
        else:
            weight = np.array([len(group) for group in members], dtype=np.float64)
        latency = routes.latency[first]
        size = np.asarray(nbytes, dtype=np.float64)[first]
        for wait, group in _equal(latency):
            everyone = len(group) == len(routes.latency)
            some = routes if everyone else routes.take(first[group])
            arrival = _Arrival.of(some, size[group], size[group], weight[group], number, group)
            self._after(wait, arrival)

    def set_capacity(self, links: IntArray, rate: FloatArray | float) -> None:
        """Change capacities (B/s) from now on; 0 cuts a link.

        Flows over it are rerouted, or stop until it is back.
        """
        self._changed[self._links.set_capacity(links, rate)] = True
        self._touch()

    def _after(self, latency: float, arrival: _Arrival) -> None:
        if latency == 0:
            self._arrive(arrival)
        else:
            self.env.timeout(latency).callbacks.append(lambda _: self._arrive(arrival))

    def _arrive(self, arrival: _Arrival) -> None:
        self._arriving.append(arrival)
        self._touch()

    def _touch(self) -> None:
        if not self._settling:
            self._settling = True
            # All starts and ends of this instant first, then one solve for all of them.
            _AfterAllElse(self.env).callbacks.append(self._settle)

    def _ring(self, alarm: simpy.Event) -> None:
        if alarm is self._alarm:
            self._touch()

    def _settle(self, _: simpy.Event) -> None:
        """Everything that happens at this instant.

        Bring all flows up to now, let those in that have arrived, end those that are through, and
        share anew.
        """
        self._settling = True  # what the callbacks below send is let in by this very call
        self._flows.advance(self.env.now - self._updated)
        self._updated = self.env.now
        self._let_in()

        # An end can make its sender send, without latency, what is through at once, and so on.
        while len(ended := self._flows.ended(self.env.now)):
            self._end(ended)
            if not self._arriving:
                break
            self._let_in()

        self._avoid_cut_links()
        self._share()
        self._settling = False
        self._set_alarm()

    def _let_in(self) -> None:
        for new in self._arriving:
            links, share = self._links.crossed(new.links, new.share, self._flows.split)
            self._changed[links] = True
            demand = share * new.weight
            self._flows.add(links, demand, new.size, new.left, new.batch, new.group)
        self._arriving.clear()

    def _end(self, ended: IntArray) -> None:
        flows = self._flows
        batches = flows.batch[ended]
        groups = flows.group[ended]
        self._changed[flows.links[:, ended]] = True
        flows.remove(ended)
        # In the order of the calls, so that what follows does not depend on rows of the table.
        for number in sorted(set(batches.tolist())):
            batch = self._batches[number]
            through = np.sort(groups[batches == number]) if len(groups) > 1 else groups
            batch.open -= len(through)
            if not batch.open:
                del self._batches[number]
            batch.done(batch.transfers(through))

    def _avoid_cut_links(self) -> None:
        """New routes for the flows whose link has been cut, where their sender knows any."""
        if not self._links.any_cut:
            return
        flows = self._flows
        is_cut = self._links.capacity == 0
        crosses_cut = is_cut[flows.links].any(axis=0)
        rows = [
            row
            for row in np.flatnonzero(crosses_cut)
            if self._batches[int(flows.batch[row])].reroute is not None
        ]
        stuck = np.array(rows, dtype=np.int64)
        self._arriving += [self._rerouted(row) for row in stuck]
        self._changed[flows.links[:, stuck]] = True
        flows.remove(stuck)
        self._let_in()

    def _rerouted(self, row: int) -> _Arrival:
        flows = self._flows
        number = int(flows.batch[row])
        group = flows.group[[row]]
        batch = self._batches[number]
        assert batch.reroute is not None
        transfers = batch.transfers(group)
        left, size = flows.left[[row]], flows.size[[row]]
        routes = batch.reroute(transfers, float(left[0]))
        weight = np.array([len(transfers)], dtype=np.float64)
        return _Arrival.of(routes, left, size, weight, number, group)

    def _share(self) -> None:
        """Max-min fair rates for the flows joined to a change by shared links.

        All others keep theirs: no link of theirs carries anything new.
        """
        flows, capacity = self._flows, self._links.capacity
        among = self._joined()
        if len(among) == flows.count > 0:  # spares a copy of the table
            flows.rate[:] = progressive_filling(flows.links, flows.demand, capacity)
        elif len(among):
            links = flows.links.take(among, axis=1)
            demand = flows.demand.take(among, axis=1)
            flows.rate[among] = progressive_filling(links, demand, capacity)
        self._changed[: len(capacity)] = False
        self.solves += 1

    def _joined(self) -> IntArray:
        """The flows that share a link with a changed one, or with one that does, and so on."""
        flows = self._flows
        if flows.count <= _FEW:
            return np.arange(flows.count)
        among = np.empty(0, dtype=np.int64)
        before = -1
        while before < len(among) < flows.count:
            before = len(among)
            self._changed[flows.links.take(among, axis=1)] = True
            self._changed[0] = False  # class 0 is no link: it joins nobody
            among = np.flatnonzero(self._changed.take(flows.links).any(axis=0))
        return among

    def _set_alarm(self) -> None:
        self._alarm = None  # an alarm set before is not heard: rates have changed since
        seconds = self._flows.next_end()
        if seconds < np.inf:
            self._alarm = self.env.timeout(seconds)
            self._alarm.callbacks.append(self._ring)


class _AfterAllElse(simpy.Event):
    """An event of this very instant that runs when everything else of the instant has."""

    callbacks: list[Callable[[simpy.Event], None]]

    def __init__(self, env: simpy.Environment) -> None:
        super().__init__(env)
        self._ok = True
        self._value = None
        env.schedule(self, priority=_AFTER_ALL_ELSE)


def _equal(values: FloatArray) -> list[tuple[float, IntArray]]:
    """Each value, and where it stands."""
    if len(values) == 1:  # nearly always so, and many times as fast
        return [(float(values[0]), np.zeros(1, dtype=np.int64))]
    return [(float(value), np.flatnonzero(values == value)) for value in np.unique(values)]
