"""Transfers as fluid flows in SimPy.

After its latency a flow moves at its max-min fair rate, which changes when other flows start and
end. All starts and ends of one instant go into one solve; with many flows, the solve covers only
those connected to a change through shared links. Flows of one call with equal route, latency and
bytes are one weighted flow, and links that all flows cross in the same way are one link.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING

import numpy as np
import simpy

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.budget import check
from dpsim.network.flows.equal_transfers import by_value, grouped
from dpsim.network.flows.flows_under_way import (
    FIRST,
    Arrival,
    Ended,
    NumpyFlows,
    OneArrival,
    numpy_seconds,
)
from dpsim.network.kernel import MUCH_SHARING, kernel
from dpsim.topology import Routes

if TYPE_CHECKING:
    from dpsim.network.flows.compiled_flows import CompiledFlows

    FlowsUnderWay = NumpyFlows | CompiledFlows

Done = Callable[[IntArray], None]
Reroute = Callable[[IntArray, float], Routes]

_CHECKED = 16  # solves between two checks of the time limit


class FluidEnvironment(simpy.Environment):
    """An environment that calls ``ring`` at ``alarm`` (s), after all events of that instant.

    The next end of a flow moves with every start and end of others, so events for it would mostly
    be obsolete. A single alarm time costs a third of an event.
    """

    def __init__(self, begin: float = 0.0) -> None:
        super().__init__(begin)
        self.alarm = simpy.core.Infinity
        self.ring: Callable[[], None] = lambda: None

    def step(self) -> None:
        """Process the next event or the alarm."""
        if self.alarm < self.peek():
            self._now, self.alarm = self.alarm, simpy.core.Infinity
            self.ring()
        else:
            super().step()


@dataclass(slots=True, eq=False)
class _Batch:
    """One call of `FluidNetwork.send`: each group's transfers and the number of open groups."""

    members: list[IntArray] | None  # None: each transfer is a group of its own
    done: Done
    reroute: Reroute | None
    open: int

    def transfers(self, groups: IntArray) -> IntArray:
        """Return the transfers that these groups represent."""
        if self.members is None:
            return groups
        return np.concatenate([self.members[group] for group in groups])


class FluidNetwork:
    """Capacities (B/s) shared by flows, whose starts and ends are alarms of a SimPy environment.

    Flows that start or end at one instant are one solve, and flows of one call with equal route,
    latency and bytes are one flow, so both are cheap. If many flows will use the same routes,
    `expect` makes each of them cheaper by one to two orders of magnitude.
    """

    def __init__(self, env: FluidEnvironment, capacities: FloatArray) -> None:
        self.env = env
        env.ring = self._settle
        self.solves = 0
        self._capacities = np.array(capacities, dtype=np.float64)
        self._flows: FlowsUnderWay | None = None  # made for the first flow or link change
        self._expected: tuple[Routes, ...] = ()
        self._work = 0.0
        # Flows whose latency is over, and a heap of the others by the end of their latency.
        self._arriving: list[Arrival | OneArrival] = []
        self._in_latency: list[tuple[float, int, Arrival | OneArrival]] = []
        self._sends = count()
        self._batches: dict[int, _Batch] = {}
        self._calls = 0
        self._updated = env.now
        self._settling = False

    def expect(self, routes: Routes, sends: float) -> None:
        """Announce routes over which flows will be sent, ``sends`` times each.

        Call it before the first flow moves; then pass this very object and ``rows`` of it to
        `send`. Results are the same up to rounding. If much work is expected, compiled loops are
        used where the machine has them.
        """
        self._expected = (*self._expected, routes)
        self._work += numpy_seconds(routes, sends)

    @property
    def flows(self) -> FlowsUnderWay:
        """The flows under way."""
        if self._flows is None:
            self._flows = flows_for(self._capacities, self._expected, self._work)
        return self._flows

    def send(
        self,
        routes: Routes,
        nbytes: FloatArray,
        done: Done,
        reroute: Reroute | None = None,
        rows: IntArray | None = None,
    ) -> None:
        """Start one flow per route now: its latency first, then its bytes.

        ``rows``: use only these of ``routes``, with one of ``nbytes`` for each. ``done(indices)``
        is called when flows of the call end; indices refer to ``nbytes``. ``reroute(indices,
        left)`` returns a new route for equal flows with ``left`` bytes to go, one of whose links
        was cut (their latency is not paid again); without it they stop. A bundle (a route with
        shares) competes as one flow; k equal transfers of 1/k of its bytes, all over the bundle's
        route, compete as k flows.
        """
        if rows is None:
            rows = np.arange(len(routes.links))
        if len(rows) == 1:
            self.send_one(routes, int(rows[0]), float(nbytes[0]), done, reroute)
            return
        # Equal transfers share the network's rates equally and end together, so one weighted flow
        # represents all of them exactly.
        first, members = grouped(routes, nbytes, rows)
        number = self._calls
        self._calls += 1
        self._batches[number] = _Batch(members, done, reroute, len(first))

        if members is None:
            weight = np.ones(len(first))
        else:
            weight = np.array([len(group) for group in members], dtype=np.float64)
        taken = rows[first]
        size = np.asarray(nbytes, dtype=np.float64)[first]
        for wait, group in by_value(routes.latency[taken]):
            sent = size[group]
            arrival = Arrival(routes, taken[group], sent, sent, weight[group], number, group)
            self._after(wait, arrival)

    def send_one(
        self, routes: Routes, row: int, nbytes: float, done: Done, reroute: Reroute | None = None
    ) -> None:
        """Do the same as `send` for one flow over one row, many times faster."""
        number = self._calls
        self._calls += 1
        self._batches[number] = _Batch(None, done, reroute, 1)
        self._after(float(routes.latency[row]), OneArrival(routes, row, nbytes, number))

    def set_capacity(self, links: IntArray, rate: FloatArray | float) -> None:
        """Change capacities (B/s) from now on; 0 cuts a link.

        Flows over a cut link are rerouted, or stop until it is back.
        """
        if self._flows is None:  # nothing has moved yet, so the implementation is still open
            self._capacities[links] = rate
        else:
            self._move(self._flows)
            self._flows.set_capacity(links, rate)
        self._touch()

    def _after(self, latency: float, arrival: Arrival | OneArrival) -> None:
        if latency == 0:
            self._arriving.append(arrival)
            self._touch()
        else:
            at = self.env.now + latency
            heappush(self._in_latency, (at, next(self._sends), arrival))
            self.env.alarm = min(self.env.alarm, at)

    def _touch(self) -> None:
        # After all starts and ends of this instant, one solve for all of them.
        if not self._settling:
            self.env.alarm = self.env.now

    def _settle(self) -> None:
        """Process everything that happens at this instant.

        Move all flows up to now, add those that have arrived, end those that have finished, and
        share the rates again.
        """
        self._settling = True  # flows that the callbacks below send are added by this call
        if not self.solves % _CHECKED:
            check()
        flows, now = self.flows, self.env.now
        while self._in_latency and self._in_latency[0][0] <= now:
            self._arriving.append(heappop(self._in_latency)[2])
        if self._arriving:
            self._move(flows)
            self._admit(flows)
        ended = flows.end(now - self._updated, now)
        self._updated = now

        # An end can make its sender send a flow that ends at once, and so on.
        while ended[0]:
            self._notify(ended)
            if not self._arriving:
                break
            self._admit(flows)
            ended = flows.end(0.0, now)

        if flows.any_cut:
            self._avoid_cut_links(flows)
        seconds = flows.share()
        self.solves += 1
        self._settling = False
        next_start = self._in_latency[0][0] if self._in_latency else np.inf
        self.env.alarm = min(now + seconds, next_start)

    def _move(self, flows: FlowsUnderWay) -> None:
        """Move all flows up to now."""
        now = self.env.now
        flows.move(now - self._updated)
        self._updated = now

    def _admit(self, flows: FlowsUnderWay) -> None:
        for arrival in self._arriving:
            if isinstance(arrival, OneArrival):
                flows.add_one(arrival)
            else:
                flows.add(arrival)
        self._arriving.clear()

    def _notify(self, ended: Ended) -> None:
        """Notify the senders of flows that have ended."""
        calls, numbers = ended
        if len(calls) == 1:  # the usual case with asynchronous workers, twice as fast
            self._end_groups(calls[0], np.array(numbers) if numbers[0] else FIRST)
            return
        ended_of: dict[int, list[int]] = {}
        for call, number in zip(calls, numbers, strict=True):
            ended_of.setdefault(call, []).append(number)
        # In the order of the calls, so that the result does not depend on table rows.
        for call in sorted(ended_of):
            self._end_groups(call, np.array(sorted(ended_of[call])))

    def _end_groups(self, call: int, groups: IntArray) -> None:
        """Mark these groups of a call as ended."""
        batch = self._batches[call]
        batch.open -= len(groups)
        if not batch.open:
            del self._batches[call]
        batch.done(batch.transfers(groups))

    def _avoid_cut_links(self, flows: FlowsUnderWay) -> None:
        """Reroute flows over cut links, if their sender can give another route."""
        over = flows.over_cut_links()
        calls, numbers = flows.calls_of(over)
        has_reroute = [self._batches[call].reroute is not None for call in calls.tolist()]
        movable = np.flatnonzero(has_reroute)
        self._arriving += [
            self._rerouted(flows, int(over[place]), int(calls[place]), numbers[[place]])
            for place in movable
        ]
        flows.remove(over[movable])
        self._admit(flows)

    def _rerouted(self, flows: FlowsUnderWay, row: int, call: int, number: IntArray) -> Arrival:
        batch = self._batches[call]
        assert batch.reroute is not None
        transfers = batch.transfers(number)
        size, left = flows.amounts(row)
        return Arrival(
            batch.reroute(transfers, left),
            FIRST,
            np.array([size]),
            np.array([left]),
            np.array([float(len(transfers))]),
            call,
            number,
        )


def flows_for(
    capacities: FloatArray, expected: tuple[Routes, ...], seconds: float
) -> FlowsUnderWay:
    """Return the implementation that suits the expected work, in ``seconds`` by `numpy_seconds`."""
    loops = None if seconds < MUCH_SHARING else kernel(seconds)
    if loops is None:
        return NumpyFlows(capacities, expected)
    from dpsim.network.flows.compiled_flows import CompiledFlows

    return CompiledFlows(loops, capacities, expected)
