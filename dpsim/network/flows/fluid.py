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
from dpsim.base.budget import check
from dpsim.network.flows.equal_transfers import grouped
from dpsim.network.flows.flows_under_way import (
    FIRST,
    Arrival,
    Ended,
    FlowsUnderWay,
    NumpyFlows,
    OneArrival,
    numpy_seconds,
)
from dpsim.network.kernel import MUCH_SHARING, kernel
from dpsim.topology import Routes

Done = Callable[[IntArray], None]
Reroute = Callable[[IntArray, float], Routes]

# SimPy runs events of one instant by priority: 0 urgent, 1 normal.
_AFTER_ALL_ELSE = EventPriority(2)
_CHECKED = 16  # solves between two looks at the limit of time


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
    """Capacities (B/s) shared by flows, inside a SimPy environment.

    What is cheap: flows that start or end at one instant are one solve. Flows of one call that are
    alike in route, latency and bytes are one flow. Where many flows will go by the same routes,
    `expect` makes each of them cheaper by one to two orders of magnitude.
    """

    def __init__(self, env: simpy.Environment, capacities: FloatArray) -> None:
        self.env = env
        self.solves = 0
        self._capacities = np.array(capacities, dtype=np.float64)
        self._flows: FlowsUnderWay | None = None  # made when the first is let in, or a link changes
        self._expected: tuple[Routes, ...] = ()
        self._work = 0.0
        self._arriving: list[Arrival | OneArrival] = []
        self._batches: dict[int, _Batch] = {}
        self._calls = 0
        self._updated = env.now
        self._settling = False
        self._alarm: _AfterAllElse | None = None

    def expect(self, routes: Routes, sends: float) -> None:
        """Tell beforehand of routes by which flows will be sent, ``sends`` times each.

        To be called before the first flow moves; then give this very object and ``rows`` of it to
        `send`. Answers are the same up to rounding. Where much is to come, loops are compiled for
        it, if the machine has a compiler.
        """
        self._expected = (*self._expected, routes)
        self._work += numpy_seconds(routes, sends)

    @property
    def flows(self) -> FlowsUnderWay:
        """The flows under way."""
        if self._flows is None:
            self._flows = under_way(self._capacities, self._expected, self._work)
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

        ``rows``: by these of ``routes`` only, one of ``nbytes`` for each. ``done(indices)`` is
        called as flows of the call end; indices count ``nbytes``. ``reroute(indices, left)`` is
        asked for a new route of equal flows, each with ``left`` B to go, when a link under them is
        cut (their latency is not paid again); without it they stop there. A bundle (a route with
        shares) competes as one flow; k equal transfers of 1/k of its bytes, all over the bundle's
        route, compete as the k flows that it stands for.
        """
        if rows is None:
            rows = np.arange(len(routes.links))
        if len(rows) == 1:
            self.send_one(routes, int(rows[0]), float(nbytes[0]), done, reroute)
            return
        # Equal transfers share the network's rates equally and end together, so that one flow with
        # a weight stands for all of them, exactly.
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
        for wait, group in _equal(routes.latency[taken]):
            sent = size[group]
            arrival = Arrival(routes, taken[group], sent, sent, weight[group], number, group)
            self._after(wait, arrival)

    def send_one(
        self, routes: Routes, row: int, nbytes: float, done: Done, reroute: Reroute | None = None
    ) -> None:
        """`send` of one flow by one row, as workers who act alone do: many times as fast."""
        number = self._calls
        self._calls += 1
        self._batches[number] = _Batch(None, done, reroute, 1)
        self._after(float(routes.latency[row]), OneArrival(routes, row, nbytes, number))

    def set_capacity(self, links: IntArray, rate: FloatArray | float) -> None:
        """Change capacities (B/s) from now on; 0 cuts a link.

        Flows over it are rerouted, or stop until it is back.
        """
        if self._flows is None:  # nothing has moved yet: which face it will be may be open
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
            self.env.timeout(latency).callbacks.append(lambda _: self._arrive(arrival))

    def _arrive(self, arrival: Arrival | OneArrival) -> None:
        self._arriving.append(arrival)
        if not self._settling and self.env.peek() > self.env.now:
            self._settle()  # nothing else happens in this instant
        else:
            self._touch()

    def _touch(self) -> None:
        if not self._settling:
            self._settling = True
            # All starts and ends of this instant first, then one solve for all of them.
            _AfterAllElse(self.env, 0.0, self._settle_if_due)

    def _settle_if_due(self, event: simpy.Event) -> None:
        if self._settling:  # else the alarm of this very instant came first
            self._settle()

    def _ring(self, alarm: simpy.Event) -> None:
        if alarm is self._alarm:
            self._settle()

    def _settle(self) -> None:
        """Everything that happens at this instant.

        Bring all flows up to now, let those in that have arrived, end those that are through, and
        share anew.
        """
        self._settling = True  # what the callbacks below send is let in by this very call
        if not self.solves % _CHECKED:
            check()
        flows, now = self.flows, self.env.now
        if self._arriving:
            self._move(flows)
            self._let_in(flows)
        ended = flows.end(now - self._updated, now)
        self._updated = now

        # An end can make its sender send, without latency, what is through at once, and so on.
        while ended[0]:
            self._tell(ended)
            if not self._arriving:
                break
            self._let_in(flows)
            ended = flows.end(0.0, now)

        if flows.any_cut:
            self._avoid_cut_links(flows)
        seconds = flows.share()
        self.solves += 1
        self._settling = False
        self._set_alarm(seconds)

    def _move(self, flows: FlowsUnderWay) -> None:
        """Bring all flows up to now."""
        now = self.env.now
        flows.move(now - self._updated)
        self._updated = now

    def _let_in(self, flows: FlowsUnderWay) -> None:
        for arrival in self._arriving:
            arrival.into(flows)
        self._arriving.clear()

    def _tell(self, ended: Ended) -> None:
        """Tell the senders of flows that are through."""
        calls, numbers = ended
        if len(calls) == 1:  # nearly always so where workers act alone, and twice as fast
            self._through(calls[0], np.array(numbers) if numbers[0] else FIRST)
            return
        through: dict[int, list[int]] = {}
        for call, number in zip(calls, numbers, strict=True):
            through.setdefault(call, []).append(number)
        # In the order of the calls, so that what follows does not depend on rows of the table.
        for call in sorted(through):
            self._through(call, np.array(sorted(through[call])))

    def _through(self, call: int, groups: IntArray) -> None:
        """These groups of a call are through."""
        batch = self._batches[call]
        batch.open -= len(groups)
        if not batch.open:
            del self._batches[call]
        batch.done(batch.transfers(groups))

    def _avoid_cut_links(self, flows: FlowsUnderWay) -> None:
        """New routes for the flows whose link has been cut, where their sender knows any."""
        over = flows.over_cut_links()
        calls, numbers = flows.calls_of(over)
        movable = [self._batches[call].reroute is not None for call in calls.tolist()]
        stuck = np.flatnonzero(movable)
        self._arriving += [
            self._rerouted(flows, int(over[place]), int(calls[place]), numbers[[place]])
            for place in stuck
        ]
        flows.remove(over[stuck])
        self._let_in(flows)

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

    def _set_alarm(self, seconds: float) -> None:
        self._alarm = None  # an alarm set before is not heard: rates have changed since
        if seconds < np.inf:
            self._alarm = _AfterAllElse(self.env, seconds, self._ring)


class _AfterAllElse(simpy.Event):
    """Lets ``action`` happen in so many seconds, when everything else of its instant has."""

    def __init__(
        self, env: simpy.Environment, seconds: float, action: Callable[[simpy.Event], None]
    ) -> None:
        # As `simpy.Timeout` does it: a call of its parent's would take half as long again.
        self.env = env
        self.callbacks = [action]
        self._ok = True
        self._value = None
        env.schedule(self, _AFTER_ALL_ELSE, seconds)


def _equal(values: FloatArray) -> list[tuple[float, IntArray]]:
    """Each value, and where it stands."""
    if len(values) == 1:  # nearly always so, and many times as fast
        return [(float(values[0]), np.zeros(1, dtype=np.int64))]
    return [(float(value), np.flatnonzero(values == value)) for value in np.unique(values)]


def under_way(
    capacities: FloatArray, expected: tuple[Routes, ...], seconds: float
) -> FlowsUnderWay:
    """The face for expected work of so many ``seconds``, as `numpy_seconds` has it."""
    loops = None if seconds < MUCH_SHARING else kernel(seconds)
    if loops is None:
        return NumpyFlows(capacities, expected)
    from dpsim.network.flows.compiled_flows import CompiledFlows

    return CompiledFlows(loops, capacities, expected)
