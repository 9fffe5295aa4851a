"""The flows under way, by compiled loops over routes that are known beforehand."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.network.flows.flows_under_way import Arrival, crossed
from dpsim.network.flows.reduction import Reduction, reduction
from dpsim.topology import Routes

_ARRAYS = (
    *("group_of", "own_begin", "own_link", "own_replaces", "own_share", "hub_of"),
    "hubs",
    *("hub_begin", "hub_link", "hub_share", "capacity"),
    *("route", "batch", "number", "weight", "size", "left", "rate", "rows"),
    *("group_weight", "offered", "least_left", "active"),
    *("room", "load", "level", "least", "used", "full", "seen"),
    *("replaced_weight", "replaced_rate", "replaced_by", "hub_weight", "hub_rate"),
)
_NUMBERS = ("route", "batch", "number")
_VALUES = ("weight", "size", "left", "rate")


class _Network(ctypes.Structure):
    """`Network` of ``known_routes.c``, field by field."""

    _fields_ = [(name, ctypes.c_int64 if name == "hubs" else ctypes.c_void_p) for name in _ARRAYS]


class CompiledFlows:
    """The face for many flows, over ``tables`` of routes that are expected.

    A flow over one of their rows costs little. Any other route is taken, but all routes are then
    laid anew; so are they when a capacity changes.
    """

    def __init__(
        self, kernel: ctypes.CDLL, capacities: FloatArray, tables: tuple[Routes, ...]
    ) -> None:
        self.any_cut = bool((capacities == 0).any())
        self.count = 0
        self._capacities = np.array(capacities, dtype=np.float64)
        self._tables = tables
        self._kept: dict[str, NDArray[np.generic]] = {}  # what the loops hold pointers to
        self._network = _Network()
        self._at = ctypes.byref(self._network)
        self._numbers = np.zeros((len(_NUMBERS), 0), dtype=np.int64)
        self._values = np.zeros((len(_VALUES), 0))
        self._rows = np.zeros(0, dtype=np.int64)
        self._bind(kernel)
        self._lay()

    def _bind(self, kernel: ctypes.CDLL) -> None:
        pointer, number, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
        self._advance = _function(kernel, "advance", number, pointer, number, real, real)
        self._drop = _function(kernel, "drop", None, pointer, number, number)
        self._share = _function(kernel, "share", real, pointer, number)

    def _lay(self) -> None:
        """Reduce the routes, and lay them out for the loops."""
        found = reduction(self._tables, self._capacities.tobytes())
        counts = [len(table.links) for table in self._tables]
        begins = [0, *np.cumsum(counts)[:-1].tolist()]
        # By identity, as they are sent: tables are kept, so that no other takes an id over.
        self._first = {id(table): at for table, at in zip(self._tables, begins, strict=True)}
        self._no_link = np.concatenate([(t.links < 0).all(axis=1) for t in self._tables])
        self._keep_reduction(found)

    def _keep_reduction(self, found: Reduction) -> None:
        own, hub = found.own, found.hub
        groups, links = len(found.hub_of), len(found.capacity)
        entries, hubs = len(hub.link), len(hub.begin) - 1
        self._entries = entries
        self._keep(
            group_of=found.group_of,
            own_begin=own.begin,
            own_link=own.link,
            own_replaces=found.replaces,
            own_share=own.share,
            hub_of=found.hub_of,
            hub_begin=hub.begin,
            hub_link=hub.link,
            hub_share=hub.share,
            capacity=found.capacity,
            group_weight=np.zeros(groups),
            offered=np.zeros(groups),
            least_left=np.zeros(groups),
            active=np.zeros(groups, dtype=np.int64),
            **{name: np.zeros(links) for name in ("room", "load", "level", "least")},
            used=np.zeros(links, dtype=np.int64),
            full=np.zeros(links, dtype=np.int8),
            seen=np.zeros(links, dtype=np.int8),
            replaced_weight=np.zeros(entries),
            replaced_rate=np.zeros(entries),
            replaced_by=np.zeros(entries, dtype=np.int64),
            hub_weight=np.zeros(hubs),
            hub_rate=np.zeros(hubs),
        )
        self._network.hubs = hubs
        self._make_answer()

    def _keep(self, **arrays: NDArray[np.generic]) -> None:
        for name, array in arrays.items():
            kept = np.ascontiguousarray(array)
            # The loops know int8, int64 and double alone.
            assert kept.itemsize in (1, 8), name
            self._kept[name] = kept
            setattr(self._network, name, kept.ctypes.data)

    def _make_room(self, count: int) -> None:
        """Let in so many flows; room at least doubles, so that growing is rare."""
        room = max(count, 2 * self.count)
        numbers = np.zeros((len(_NUMBERS), room), dtype=np.int64)
        values = np.zeros((len(_VALUES), room))
        numbers[:, : self.count] = self._numbers[:, : self.count]
        values[:, : self.count] = self._values[:, : self.count]
        self._numbers, self._values = numbers, values
        self._keep(**dict(zip(_NUMBERS, numbers, strict=True)))
        self._keep(**dict(zip(_VALUES, values, strict=True)))
        self._make_answer()

    def _make_answer(self) -> None:
        """Room for what the loops list: flows, or a hub's entries."""
        self._rows = np.zeros(max(self._numbers.shape[1], self._entries), dtype=np.int64)
        self._keep(rows=self._rows)

    def set_capacity(self, links: IntArray, rate: FloatArray | float) -> None:
        """See `FlowsUnderWay`. All routes are laid anew."""
        self._capacities[links] = rate
        self.any_cut = bool((self._capacities == 0).any())
        self._lay()

    def add(self, arrival: Arrival) -> None:
        """See `FlowsUnderWay`."""
        first = self._first.get(id(arrival.routes))
        if first is not None and len(arrival.rows) == 1:  # nearly always so, and twice as fast
            self._add_one(first + int(arrival.rows[0]), arrival)
            return
        if first is not None:
            routes = first + arrival.rows
        else:
            routes = self._surprise(arrival.routes.take(arrival.rows))
        begin, end = self.count, self.count + len(routes)
        if end > self._numbers.shape[1]:
            self._make_room(end)
        self.count = end
        numbers, values = self._numbers[:, begin:end], self._values[:, begin:end]
        numbers[0] = routes
        numbers[1] = arrival.batch
        numbers[2] = arrival.number
        values[0] = arrival.weight
        values[1] = arrival.size
        # What crosses no link (inside one device) is there as soon as its latency is over.
        values[2] = np.where(self._no_link[routes], 0.0, arrival.left)
        # They do not move until rates are shared anew.
        values[3] = 0.0

    def _add_one(self, route: int, arrival: Arrival) -> None:
        if self.count == self._numbers.shape[1]:
            self._make_room(self.count + 1)
        row, numbers, values = self.count, self._numbers, self._values
        numbers[0, row] = route
        numbers[1, row] = arrival.batch
        numbers[2, row] = arrival.number[0]
        values[0, row] = arrival.weight[0]
        values[1, row] = arrival.size[0]
        values[2, row] = 0.0 if self._no_link[route] else arrival.left[0]
        values[3, row] = 0.0
        self.count += 1

    def _surprise(self, routes: Routes) -> IntArray:
        """Take in routes that were not expected."""
        first = len(self._no_link)
        self._tables = (*self._tables, routes)
        self._lay()
        return first + np.arange(len(routes.links))

    def advance(self, seconds: float, now: float) -> IntArray:
        """See `FlowsUnderWay`."""
        return self._rows[: self._advance(self._at, self.count, seconds, now)]

    def over_cut_links(self) -> IntArray:
        """See `FlowsUnderWay`."""
        cut = np.append(self._capacities == 0, False)  # the last is for -1, no link
        stopped = np.concatenate([cut[crossed(table)[0]].any(axis=1) for table in self._tables])
        return np.flatnonzero(stopped[self._numbers[0, : self.count]])

    def told(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """See `FlowsUnderWay`."""
        return self._numbers[1][rows], self._numbers[2][rows]

    def amounts(self, row: int) -> tuple[float, float]:
        """See `FlowsUnderWay`."""
        return float(self._values[1, row]), float(self._values[2, row])

    def remove(self, rows: IntArray) -> None:
        """See `FlowsUnderWay`."""
        self._rows[: len(rows)] = rows
        self._drop(self._at, self.count, len(rows))
        self.count -= len(rows)

    def share(self) -> float:
        """See `FlowsUnderWay`."""
        return float(self._share(self._at, self.count))


def _function(kernel: ctypes.CDLL, name: str, answers: Any, *takes: Any) -> Callable[..., Any]:
    # By item, not by attribute: each is a function object of its own, with types of its own.
    function = kernel[name]
    function.restype, function.argtypes = answers, takes
    return function
