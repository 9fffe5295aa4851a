"""The flows under way, by numpy.

`CompiledFlows` has the same methods, for many flows over routes that are known in advance.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.network.flows.flow_table import FlowTable
from dpsim.network.flows.link_classes import LinkClasses
from dpsim.network.maxmin import progressive_filling
from dpsim.topology import Routes

# With at most this many flows, solving for all is cheaper than finding the affected ones.
_FEW = 1024

# The number and the weight of the only flow of a call.
FIRST = np.zeros(1, dtype=np.int64)
_WEIGHT_OF_ONE = np.ones(1)

# Time of a solve by numpy (2.2 GHz Xeon): a fixed part, and a part for each hop of a flow.
_SECONDS_A_SOLVE = 1e-4
_SECONDS_A_HOP = 2e-8

# Calls whose flows have ended, and the number of each flow within its call.
Ended = tuple[list[int], list[int]]

# Classes of links by hop and flow, 0 for none, and the share of them that each flow takes.
_Hops = tuple[IntArray, FloatArray]


@dataclass(frozen=True, slots=True, eq=False)
class Arrival:
    """Flows to add: all flows of one call and one latency, or one that was rerouted.

    They use ``rows`` of ``routes``. ``size`` is their total bytes, ``left`` the remaining ones;
    each represents ``weight`` equal flows. ``number`` is their number within the call ``batch``.
    """

    routes: Routes
    rows: IntArray
    size: FloatArray
    left: FloatArray
    weight: FloatArray
    batch: int
    number: IntArray


class OneArrival(NamedTuple):
    """The only flow of a call, ``nbytes`` over one ``row`` of ``routes``."""

    routes: Routes
    row: int
    nbytes: float
    batch: int

    @property
    def as_arrival(self) -> Arrival:
        """The same flow as an `Arrival`."""
        size = np.array([self.nbytes])
        return Arrival(
            self.routes, np.array([self.row]), size, size, _WEIGHT_OF_ONE, self.batch, FIRST
        )


class NumpyFlows:
    """Flows that move at max-min fair rates. Rows are valid until flows are added or removed.

    This implementation needs no compiled library, and is the reference for `CompiledFlows`. The
    links of ``expected`` routes are classified together, which is much cheaper than one by one.
    """

    def __init__(self, capacities: FloatArray, expected: tuple[Routes, ...] = ()) -> None:
        links, self._known = _classified(expected, np.asarray(capacities, np.float64).tobytes())
        self._links = links.copy()
        self._flows = FlowTable()
        self._changed = np.zeros(len(capacities) + 1, dtype=bool)  # by class of links

    @property
    def any_cut(self) -> bool:
        """Whether some link is cut."""
        return self._links.any_cut

    def set_capacity(self, links: IntArray, rate: FloatArray | float) -> None:
        """Change capacities (B/s) of links."""
        self._changed[self._links.set_capacity(links, rate)] = True

    def add(self, arrival: Arrival) -> None:
        """Add flows that do not move yet."""
        classes, taken = self._crossed(arrival)
        # A flow that crosses no link (inside one device) arrives right after its latency.
        left = np.where(classes.any(axis=0), arrival.left, 0.0)
        self._changed[classes] = True
        demand = taken * arrival.weight
        self._flows.add(classes, demand, arrival.size, left, arrival.batch, arrival.number)

    def _crossed(self, arrival: Arrival) -> _Hops:
        """Return the classes of links that flows cross, and their shares, (hops, flows)."""
        known = self._known.get(arrival.routes)
        if known is not None:
            classes, share = known
            return classes.take(arrival.rows, axis=1), share.take(arrival.rows, axis=1)
        routes = arrival.routes.take(arrival.rows)
        return self._links.crossed(*crossed(routes), self._split)

    def _split(self, child_of: IntArray) -> None:
        """Handle the split of a class, after which the precomputed routes are invalid."""
        self._known = {}
        self._flows.split(child_of)

    def add_one(self, arrival: OneArrival) -> None:
        """Do the same as `add` for one flow, many times faster."""
        routes, row, nbytes, call = arrival
        known = self._known.get(routes)
        if known is None:
            self.add(arrival.as_arrival)
            return
        classes, taken = known[0][:, row], known[1][:, row]
        # As in `add`, a flow that crosses no link arrives at once.
        left = nbytes if np.count_nonzero(classes) else 0.0
        self._changed[classes] = True
        self._flows.add_one(classes, taken, nbytes, left, call)

    def move(self, seconds: float) -> None:
        """Move all flows at their rates, except those added since the rates were last shared."""
        self._flows.advance(seconds)

    def end(self, seconds: float, now: float) -> Ended:
        """Move all flows until ``now``, and remove and return those that have finished.

        Rounding errors at that clock do not keep a flow from ending.
        """
        self.move(seconds)
        rows = self._flows.ended(now)
        if not len(rows):
            return [], []
        calls, numbers = self.calls_of(rows)
        self.remove(rows)
        return calls.tolist(), numbers.tolist()

    def over_cut_links(self) -> IntArray:
        """Return the rows that cross a cut link."""
        is_cut = self._links.capacity == 0
        return np.flatnonzero(is_cut[self._flows.links].any(axis=0))

    def calls_of(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return the call of each row, and its number within the call."""
        return self._flows.batch[rows], self._flows.group[rows]

    def amounts(self, row: int) -> tuple[float, float]:
        """Return the total and the remaining bytes of a flow."""
        return float(self._flows.size[row]), float(self._flows.left[row])

    def remove(self, rows: IntArray) -> None:
        """Remove rows (in ascending order)."""
        self._changed[self._flows.links[:, rows]] = True
        self._flows.remove(rows)

    def share(self) -> float:
        """Set all rates; return the seconds until the first flow ends (infinite: none).

        Only flows connected to a change through shared links get new rates; the load of the other
        flows' links is unchanged.
        """
        flows, capacity = self._flows, self._links.capacity
        affected = self._affected()
        if affected is None:
            flows.rate[:] = progressive_filling(flows.links, flows.demand, capacity)
        elif len(affected):
            links = flows.links.take(affected, axis=1)
            demand = flows.demand.take(affected, axis=1)
            flows.rate[affected] = progressive_filling(links, demand, capacity)
        self._changed[: len(capacity)] = False
        return flows.next_end()

    def _affected(self) -> IntArray | None:
        """Return the flows that share links with a change, directly or through other flows.

        None means all flows, which avoids copying the table.
        """
        flows = self._flows
        if 0 < flows.count <= _FEW:
            return None
        affected = np.empty(0, dtype=np.int64)
        before = -1
        while before < len(affected) < flows.count:
            before = len(affected)
            self._changed[flows.links.take(affected, axis=1)] = True
            self._changed[0] = False  # class 0 is no link and connects no flows
            affected = np.flatnonzero(self._changed.take(flows.links).any(axis=0))
        return None if len(affected) == flows.count > 0 else affected


@lru_cache(maxsize=4)
def _classified(
    tables: tuple[Routes, ...], capacities: bytes
) -> tuple[LinkClasses, dict[Routes, _Hops]]:
    """Return the classes of links that the routes of ``tables`` cross, and each route's classes.

    ``capacities`` are the bytes of the array of B/s by link, because bytes can be cached.
    """
    links = LinkClasses(np.frombuffer(capacities))
    entries = {table: crossed(table) for table in tables}
    for each in entries.values():  # split all classes first, so that they are final below
        links.crossed(*each, lambda _: None)
    return links, {table: links.crossed(*each, lambda _: None) for table, each in entries.items()}


def numpy_seconds(routes: Routes, sends: float) -> float:
    """Return an estimate of numpy's seconds for ``sends`` flows over each route.

    Each start and each end of a flow takes one solve over as many flows as there are routes.
    """
    solves = 2 * sends * len(routes.links)
    return solves * (_SECONDS_A_SOLVE + _SECONDS_A_HOP * routes.links.size)


def crossed(routes: Routes) -> tuple[IntArray, FloatArray]:
    """Return links and shares, with no link (-1) where the share is 0."""
    if routes.share is None:
        return routes.links, np.ones(routes.links.shape)
    share = np.asarray(routes.share, dtype=np.float64)
    return np.where(share > 0, routes.links, -1), share
