"""The flows under way, in compiled loops over routes that are known in advance."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.network.flows.flows_under_way import Arrival, Ended, OneArrival, crossed
from dpsim.network.flows.reduction import Reduction, reduction
from dpsim.topology import Routes


def _struct(numbers: str, values: str) -> np.dtype[Any]:
    """Return a structure with these integers, then these doubles."""
    fields = [
        *((name, "i8") for name in numbers.split()),
        *((name, "f8") for name in values.split()),
    ]
    return np.dtype(fields)


# The structures of ``known_routes.h``, field by field.
_FLOW = _struct("route call number before after", "weight size target due")
_GROUP = _struct("own_begin own_end hub cell first place changed open", "weight rate times")
_MOVING = _struct("number like", "rate clock least_target least_due")
_LINK = _struct("on_begin on_end under_begin under_end state", "capacity load room")
_HUB = _struct("member_begin open", "weight rate")
_CELL = _struct("group_begin group_end link_begin link_end kind chief before after place alike", "")
_ENTRY = _struct("to", "share")
_OFFER = _struct("link", "level")
_ARRAYS = (
    *("group_of", "own", "on", "under", "flow", "group", "link", "hub", "cell", "moving"),
    *("changed", "chiefs", "groups", "links", "open_member", "heap", "ended_call", "ended_number"),
)
_COUNTS = ("flows", "actives", "changes", "hubs", "cells", "chief_count")


class _Network(ctypes.Structure):
    """The structure `Network` of ``known_routes.h``."""

    _fields_ = [
        *((name, ctypes.c_void_p) for name in _ARRAYS),
        *((name, ctypes.c_int64) for name in _COUNTS),
    ]


class CompiledFlows:
    """`NumpyFlows` for many flows, over ``tables`` of expected routes.

    Flows over their rows are cheap. An unexpected route, or a change of a capacity, makes it lay
    out all routes again.
    """

    def __init__(
        self, kernel: ctypes.CDLL, capacities: FloatArray, tables: tuple[Routes, ...]
    ) -> None:
        self.any_cut = bool((capacities == 0).any())
        self._capacities = np.array(capacities, dtype=np.float64)
        self._tables = tables
        self._kept: dict[str, NDArray[Any]] = {}  # arrays that the loops hold pointers to
        self._network = _Network()
        self._at = ctypes.byref(self._network)
        self._flows = np.zeros(0, dtype=_FLOW)
        self._ended = np.zeros((2, 0), dtype=np.int64)
        self._bind(kernel)
        self._lay_out()

    def _bind(self, kernel: ctypes.CDLL) -> None:
        network, number, real = ctypes.c_void_p, ctypes.c_int64, ctypes.c_double
        flow = (number, number, number, real, real, real)
        self._add = _function(kernel, "flows_add", None, network, *flow)
        self._drop = _function(kernel, "flows_drop", None, network, number)
        self._move = _function(kernel, "flows_move", None, network, real)
        self._end = _function(kernel, "flows_end", number, network, real, real)
        self._share = _function(kernel, "flows_share", real, network)
        self._sort_cells = _function(kernel, "cells_sort", None, network)

    def _lay_out(self) -> None:
        """Reduce the routes, lay them out for the loops, and add the flows again."""
        under_way, left = self._under_way.copy(), self._left().tolist()
        counts = [len(table.links) for table in self._tables]
        begins = [0, *np.cumsum(counts)[:-1].tolist()]
        # By identity, because callers send these very tables. They are kept, so no id is reused.
        self._first = {id(table): at for table, at in zip(self._tables, begins, strict=True)}
        self._keep_routes(reduction(self._tables, self._capacities.tobytes()))
        network = self._network
        network.flows = network.actives = network.changes = network.chief_count = 0
        self._sort_cells(self._at)
        flows = under_way[["route", "call", "number", "weight", "size"]].tolist()
        for flow, nbytes in zip(flows, left, strict=True):
            self._add(self._at, *flow, nbytes)

    def _keep_routes(self, found: Reduction) -> None:
        """Keep the routes, and allocate the working arrays of the loops."""
        own, hub, cells = found.own, found.hub, found.cells
        groups, links, hubs = len(found.hub_of), len(found.capacity), len(hub.begin) - 1
        # A hub's share counts for all of its groups: a replacing entry adds the difference.
        of_hub = np.append(hub.share, 0.0)[found.replaces]
        on, on_begin = _sorted(own.link, links)
        under, under_begin = _sorted(hub.link, links)
        _, member_begin = _sorted(found.hub_of, hubs)
        self._network.hubs, self._network.cells = hubs, len(cells.kind)
        self._keep(
            group_of=found.group_of,
            own=_table(_ENTRY, to=own.link, share=own.share - of_hub),
            on=_table(_ENTRY, to=own.row[on], share=own.share[on]),
            under=_table(_ENTRY, to=hub.row[under], share=hub.share[under]),
            group=_table(
                _GROUP, **_spans("own", own.begin), hub=found.hub_of, cell=cells.of_group(groups)
            ),
            link=_table(
                _LINK,
                **_spans("on", on_begin),
                **_spans("under", under_begin),
                capacity=found.capacity,
            ),
            hub=_table(_HUB, member_begin=member_begin[:-1]),
            cell=_table(
                _CELL,
                **_spans("group", cells.group_begin),
                **_spans("link", cells.link_begin),
                kind=cells.kind,
                chief=np.full(len(cells.kind), -1),
            ),
        )
        for name in ("changed", "groups", "open_member"):
            self._keep(**{name: np.zeros(groups, dtype=np.int64)})
        self._keep(
            moving=np.zeros(groups, dtype=_MOVING),
            chiefs=np.zeros(len(cells.kind), dtype=np.int64),
            links=np.zeros(links, dtype=np.int64),
            heap=np.zeros(links, dtype=_OFFER),
        )

    def _keep(self, **arrays: NDArray[Any]) -> None:
        for name, array in arrays.items():
            kept = np.ascontiguousarray(array)
            # The loops use only 8-byte values.
            assert kept.itemsize % 8 == 0, name
            self._kept[name] = kept
            setattr(self._network, name, kept.ctypes.data)

    @property
    def count(self) -> int:
        """The number of flows under way."""
        return int(self._network.flows)

    @property
    def _under_way(self) -> NDArray[Any]:
        return self._flows[: self.count]

    def _left(self) -> FloatArray:
        """Return the bytes of each flow that have not arrived."""
        flows = self._under_way
        if not len(flows):
            return np.zeros(0)
        group = self._kept["group_of"][flows["route"]]
        place = self._kept["group"]["place"][group]
        return np.asarray(flows["target"] - self._kept["moving"]["clock"][place])

    def _make_room(self, count: int) -> None:
        """Allocate room for ``count`` flows; it at least doubles, so that growing is rare."""
        flows = np.zeros(max(count, 2 * self.count), dtype=_FLOW)
        flows[: self.count] = self._under_way
        self._flows = flows
        self._ended = np.zeros((2, len(flows)), dtype=np.int64)
        self._keep(flow=flows, ended_call=self._ended[0], ended_number=self._ended[1])

    def set_capacity(self, links: IntArray, rate: FloatArray | float) -> None:
        """Change capacities, and lay out all routes again."""
        self._capacities[links] = rate
        self.any_cut = bool((self._capacities == 0).any())
        self._lay_out()

    def add(self, arrival: Arrival) -> None:
        first = self._first.get(id(arrival.routes))
        if first is not None:
            routes = first + arrival.rows
        else:
            routes = self._with_new_routes(arrival.routes.take(arrival.rows))
        if self.count + len(routes) > len(self._flows):
            self._make_room(self.count + len(routes))
        columns = routes, arrival.number, arrival.weight, arrival.size, arrival.left
        flows = zip(*(column.tolist() for column in columns), strict=True)
        for route, number, weight, size, left in flows:
            self._add(self._at, route, arrival.batch, number, weight, size, left)

    def add_one(self, arrival: OneArrival) -> None:
        routes, row, nbytes, call = arrival
        first = self._first.get(id(routes))
        if first is None:
            self.add(arrival.as_arrival)
            return
        if self.count == len(self._flows):
            self._make_room(self.count + 1)
        self._add(self._at, first + row, call, 0, 1.0, nbytes, nbytes)

    def _with_new_routes(self, routes: Routes) -> IntArray:
        """Return the numbers of unexpected routes, after laying out all routes again with them."""
        first = sum(len(table.links) for table in self._tables)
        self._tables = (*self._tables, routes)
        self._lay_out()
        return first + np.arange(len(routes.links))

    def move(self, seconds: float) -> None:
        self._move(self._at, seconds)

    def end(self, seconds: float, now: float) -> Ended:
        found = self._end(self._at, seconds, now)
        if not found:
            return [], []
        calls, numbers = self._ended[:, :found].tolist()
        return calls, numbers

    def over_cut_links(self) -> IntArray:
        cut = np.append(self._capacities == 0, False)  # the last is for -1, no link
        stopped = np.concatenate([cut[crossed(table)[0]].any(axis=1) for table in self._tables])
        return np.flatnonzero(stopped[self._under_way["route"]])

    def calls_of(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        return self._flows["call"][rows], self._flows["number"][rows]

    def amounts(self, row: int) -> tuple[float, float]:
        return float(self._flows["size"][row]), float(self._left()[row])

    def remove(self, rows: IntArray) -> None:
        for row in rows[::-1].tolist():
            self._drop(self._at, row)

    def share(self) -> float:
        return float(self._share(self._at))


def _table(kind: np.dtype[Any], /, **columns: NDArray[Any]) -> NDArray[Any]:
    """Return an array of structures, with zeros in the fields that are not given."""
    table = np.zeros(max(map(len, columns.values())), dtype=kind)
    for name, values in columns.items():
        table[name] = values
    return table


def _spans(name: str, begin: IntArray) -> dict[str, IntArray]:
    """Return where each span begins and ends; each begins where the previous one ends."""
    return {f"{name}_begin": begin[:-1], f"{name}_end": begin[1:]}


def _sorted(of: IntArray, count: int) -> tuple[IntArray, IntArray]:
    """Return an order that groups items by their number ``of``, and where each number begins.

    Numbers are 0 to ``count`` - 1; items with -1 are left out.
    """
    order = np.argsort(of, kind="stable")
    begin = np.searchsorted(of[order], np.arange(count + 1))
    return order[begin[0] :], begin - begin[0]


def _function(kernel: ctypes.CDLL, name: str, result: Any, *arguments: Any) -> Callable[..., Any]:
    # By item, because by attribute ctypes returns one shared function object.
    function = kernel[name]
    function.restype, function.argtypes = result, arguments
    return function
