"""What `FluidNetwork` asks of the flows under way, and what it does by numpy.

Two faces of one contract: `NumpyFlows` here, and `CompiledFlows` for many flows of routes that are
known beforehand.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple, Protocol

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.network.flows.flow_table import FlowTable
from dpsim.network.flows.link_classes import LinkClasses
from dpsim.network.maxmin import progressive_filling
from dpsim.topology import Routes

# Sharing anew among so few flows costs less than finding those that a change can reach.
_FEW = 1024

# Of a call with one flow: its number, and its weight.
FIRST = np.zeros(1, dtype=np.int64)
_ITSELF = np.ones(1)

# What a solve by numpy takes (2.2 GHz Xeon), whatever its size, and for each hop of a flow.
_SECONDS_A_SOLVE = 1e-4
_SECONDS_A_HOP = 2e-8

# Calls whose flows are through, and the number of each flow within its call.
Ended = tuple[list[int], list[int]]

# Classes of links by hop and flow, 0 for none, and the share that each flow takes of them.
_Hops = tuple[IntArray, FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """Flows that are let in: those of one call and one latency, or one that was rerouted.

    They go by ``rows`` of ``routes``. ``size`` bytes in all, ``left`` of them to go; each stands
    for ``weight`` equal ones. ``number``: theirs within the call, which is ``batch``.
    """

    routes: Routes
    rows: IntArray
    size: FloatArray
    left: FloatArray
    weight: FloatArray
    batch: int
    number: IntArray

    def into(self, flows: FlowsUnderWay) -> None:
        """Let them in."""
        flows.add(self)


class OneArrival(NamedTuple):
    """The only flow of a call, ``nbytes`` by one ``row`` of ``routes``."""

    routes: Routes
    row: int
    nbytes: float
    batch: int

    def into(self, flows: FlowsUnderWay) -> None:
        """Let it in."""
        flows.add_one(self)

    @property
    def alike(self) -> Arrival:
        """The same, told as several are."""
        size = np.array([self.nbytes])
        return Arrival(self.routes, np.array([self.row]), size, size, _ITSELF, self.batch, FIRST)


class FlowsUnderWay(Protocol):
    """Flows that move at max-min fair rates. Rows are good until flows are added or removed."""

    @property
    def any_cut(self) -> bool:
        """Whether some link is cut."""

    def set_capacity(self, links: IntArray, rate: FloatArray | float) -> None:
        """Change capacities (B/s) of links."""

    def add(self, arrival: Arrival) -> None:
        """Let in flows that do not move yet."""

    def add_one(self, arrival: OneArrival) -> None:
        """Let in a flow that does not move yet."""

    def move(self, seconds: float) -> None:
        """Let all flows move at their rates, but for those let in since these were shared."""

    def end(self, seconds: float, now: float) -> Ended:
        """Let all flows move until ``now``; drop those that are through.

        What rounding leaves at such a clock does not keep them.
        """

    def over_cut_links(self) -> IntArray:
        """The rows that cross a link that is cut."""

    def calls_of(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """The call of each row, and its number within the call."""

    def amounts(self, row: int) -> tuple[float, float]:
        """Bytes of a flow in all, and of those that are left."""

    def remove(self, rows: IntArray) -> None:
        """Drop rows (in ascending order)."""

    def share(self) -> float:
        """Set all rates; returns the seconds until the first flow is through (infinite: none)."""


class NumpyFlows:
    """The face that every machine has, and the oracle of the other.

    The links of ``expected`` routes are told apart at once: much cheaper than one route at a time.
    """

    def __init__(self, capacities: FloatArray, expected: tuple[Routes, ...] = ()) -> None:
        links, self._known = _told_apart(expected, np.asarray(capacities, np.float64).tobytes())
        self._links = links.copy()
        self._flows = FlowTable()
        self._changed = np.zeros(len(capacities) + 1, dtype=bool)  # by class of links

    @property
    def any_cut(self) -> bool:
        """Whether some link is cut."""
        return self._links.any_cut

    def set_capacity(self, links: IntArray, rate: FloatArray | float) -> None:
        """See `FlowsUnderWay`."""
        self._changed[self._links.set_capacity(links, rate)] = True

    def add(self, arrival: Arrival) -> None:
        """See `FlowsUnderWay`."""
        classes, taken = self._crossed(arrival)
        # What crosses no link (inside one device) is there as soon as its latency is over.
        left = np.where(classes.any(axis=0), arrival.left, 0.0)
        self._changed[classes] = True
        demand = taken * arrival.weight
        self._flows.add(classes, demand, arrival.size, left, arrival.batch, arrival.number)

    def _crossed(self, arrival: Arrival) -> _Hops:
        """The classes of links that flows cross, and their shares, (hops, flows)."""
        known = self._known.get(arrival.routes)
        if known is not None:
            classes, share = known
            return classes.take(arrival.rows, axis=1), share.take(arrival.rows, axis=1)
        routes = arrival.routes.take(arrival.rows)
        return self._links.crossed(*crossed(routes), self._split)

    def _split(self, child_of: IntArray) -> None:
        """A class is split, of which what is known beforehand does not tell."""
        self._known = {}
        self._flows.split(child_of)

    def add_one(self, arrival: OneArrival) -> None:
        """See `FlowsUnderWay`."""
        routes, row, nbytes, call = arrival
        known = self._known.get(routes)
        if known is None:
            self.add(arrival.alike)
            return
        classes, taken = known[0][:, row], known[1][:, row]
        # As in `add`: what crosses no link is there at once.
        left = nbytes if np.count_nonzero(classes) else 0.0
        self._changed[classes] = True
        self._flows.add_one(classes, taken, nbytes, left, call)

    def move(self, seconds: float) -> None:
        """See `FlowsUnderWay`."""
        self._flows.advance(seconds)

    def end(self, seconds: float, now: float) -> Ended:
        """See `FlowsUnderWay`."""
        self.move(seconds)
        rows = self._flows.ended(now)
        if not len(rows):
            return [], []
        calls, numbers = self.calls_of(rows)
        self.remove(rows)
        return calls.tolist(), numbers.tolist()

    def over_cut_links(self) -> IntArray:
        """See `FlowsUnderWay`."""
        is_cut = self._links.capacity == 0
        return np.flatnonzero(is_cut[self._flows.links].any(axis=0))

    def calls_of(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """See `FlowsUnderWay`."""
        return self._flows.batch[rows], self._flows.group[rows]

    def amounts(self, row: int) -> tuple[float, float]:
        """See `FlowsUnderWay`."""
        return float(self._flows.size[row]), float(self._flows.left[row])

    def remove(self, rows: IntArray) -> None:
        """See `FlowsUnderWay`."""
        self._changed[self._flows.links[:, rows]] = True
        self._flows.remove(rows)

    def share(self) -> float:
        """Max-min fair rates for the flows joined to a change by shared links.

        All others keep theirs: no link of theirs carries anything new.
        """
        flows, capacity = self._flows, self._links.capacity
        among = self._joined()
        if among is None:
            flows.rate[:] = progressive_filling(flows.links, flows.demand, capacity)
        elif len(among):
            links = flows.links.take(among, axis=1)
            demand = flows.demand.take(among, axis=1)
            flows.rate[among] = progressive_filling(links, demand, capacity)
        self._changed[: len(capacity)] = False
        return flows.next_end()

    def _joined(self) -> IntArray | None:
        """The flows that share a link with a changed one, or with one that does, and so on.

        None for all, which spares a copy of the table.
        """
        flows = self._flows
        if 0 < flows.count <= _FEW:
            return None
        among = np.empty(0, dtype=np.int64)
        before = -1
        while before < len(among) < flows.count:
            before = len(among)
            self._changed[flows.links.take(among, axis=1)] = True
            self._changed[0] = False  # class 0 is no link: it joins nobody
            among = np.flatnonzero(self._changed.take(flows.links).any(axis=0))
        return None if len(among) == flows.count > 0 else among


@lru_cache(maxsize=4)
def _told_apart(
    tables: tuple[Routes, ...], capacities: bytes
) -> tuple[LinkClasses, dict[Routes, _Hops]]:
    """Classes of links that routes of ``tables`` cross alike, and those that each route crosses.

    ``capacities`` are the bytes of B/s by link: as bytes, so that the answer can be kept.
    """
    links = LinkClasses(np.frombuffer(capacities))
    entries = {table: crossed(table) for table in tables}
    for each in entries.values():  # all are split before the first is told by its classes
        links.crossed(*each, lambda _: None)
    return links, {table: links.crossed(*each, lambda _: None) for table, each in entries.items()}


def numpy_seconds(routes: Routes, sends: float) -> float:
    """About how long numpy takes for ``sends`` flows by each route.

    The start and the end of each are a solve each, among as many flows as there are routes.
    """
    solves = 2 * sends * len(routes.links)
    return solves * (_SECONDS_A_SOLVE + _SECONDS_A_HOP * routes.links.size)


def crossed(routes: Routes) -> tuple[IntArray, FloatArray]:
    """Links and shares; no link (-1) where nothing of it is taken."""
    if routes.share is None:
        return routes.links, np.ones(routes.links.shape)
    share = np.asarray(routes.share, dtype=np.float64)
    return np.where(share > 0, routes.links, -1), share
