"""One network on which several jobs send flows at once.

It includes background traffic and link changes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import numpy as np
import simpy

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.base.errors import DpsimError
from dpsim.network.conditions import Conditions
from dpsim.network.flows.equal_transfers import by_value
from dpsim.network.flows.fluid import FluidEnvironment, FluidNetwork
from dpsim.topology import Network, Routes, routes_avoiding

_ENDLESS = 1e30  # bytes of a background flow


class SharedNetwork:
    """The network that all jobs share, under ``conditions``.

    Its clock ``env.now`` is 0 at ``begin`` (s), when the first job starts, so that small
    differences keep their digits.
    """

    def __init__(self, network: Network, begin: float, conditions: Conditions) -> None:
        self.network = network
        self.begin = begin
        self.env = FluidEnvironment()
        # A background flow's own limit is an extra link that only it crosses.
        limits = [flow.rate for flow in conditions.background]
        self.fluid = FluidNetwork(self.env, np.concatenate([network.capacities, limits]))
        self._links = len(network.capacities)
        self._cut: set[int] = set()
        self._start_background(conditions)
        self._plan_changes(conditions)

    def _start_background(self, conditions: Conditions) -> None:
        for number, flow in enumerate(conditions.background):
            source, destination = np.array([flow.source]), np.array([flow.destination])
            routes = self.network.routes(source, destination)
            links = np.append(routes.links, [[self._links + number]], axis=1)
            limited = Routes(links, routes.latency)
            self.fluid.send(limited, np.array([_ENDLESS]), lambda _: None)

    def _plan_changes(self, conditions: Conditions) -> None:
        for change in sorted(conditions.changes, key=lambda change: change.time):
            delay = change.time - self.begin
            if delay <= 0:
                self._change(change.link, change.factor)
            else:
                self.after(delay, partial(self._change, change.link, change.factor))

    def _change(self, link: int, factor: float) -> None:
        if factor == 0:
            self._cut.add(link)
        else:
            self._cut.discard(link)
        # Relative to the original rate, not to earlier changes.
        rate = float(self.network.capacities[link]) * factor
        self.fluid.set_capacity(np.array([link]), rate)

    def detour(self, source: IntArray, destination: IntArray) -> Routes:
        """Return routes that cross no link that is currently cut."""
        return routes_avoiding(self.network, source, destination, frozenset(self._cut))

    def after(self, delay: float, action: Callable[[], None]) -> None:
        """Call ``action`` after ``delay`` seconds."""
        self.env.timeout(delay).callbacks.append(lambda _: action())

    def send(
        self, routes: Routes, rows: IntArray, nbytes: float, done: Callable[[IntArray], None]
    ) -> None:
        """Start ``nbytes`` over each of ``rows`` of ``routes`` now.

        ``done`` is called with rows as they end.
        """
        sizes = np.full(len(rows), nbytes)
        self.fluid.send(routes, sizes, lambda ended: done(rows[ended]), rows=rows)

    def send_one(
        self, routes: Routes, row: int, nbytes: float, done: Callable[[IntArray], None]
    ) -> None:
        """Do the same as `send` over one row, many times faster."""
        self.fluid.send_one(routes, row, nbytes, done)

    @contextmanager
    def events(self) -> Iterator[Callable[[], None]]:
        """Yield a function that processes the next event.

        Raises DpsimError if no event is left because a cut link keeps flows from ending.
        """
        try:
            yield self.env.step
        except simpy.core.EmptySchedule:
            raise DpsimError(
                "disturbance.links: must leave a way for all transfers, but a cut link stops one "
                "for good"
            ) from None


def ends_of_flows(
    network: Network, routes: Routes, starts: FloatArray, nbytes: float, conditions: Conditions
) -> FloatArray:
    """Return when each flow of ``nbytes`` ends (s), with one start per route in ``starts`` (s).

    All of them share ``network``.
    """
    begin = float(starts.min())
    shared = SharedNetwork(network, begin, conditions)
    shared.fluid.expect(routes, 1.0)
    ends = np.full(len(starts), np.nan)

    def ended(rows: IntArray) -> None:
        ends[rows] = begin + shared.env.now

    for start, rows in by_value(starts):
        send = partial(shared.send, routes, rows, float(nbytes), ended)
        shared.after(start - begin, send)
    # Not until the event queue is empty, because background flows never end.
    with shared.events() as next_event:
        while np.isnan(ends).any():
            next_event()
    return ends
