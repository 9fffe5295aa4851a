"""The flows under way, one row each, in two tables with room to grow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray

_ROUNDING = 1e-15  # relative to the clock: rounding error of summed times
_NEARLY_NOTHING = 1e-12  # relative to a flow's bytes

# Rows of the two tables before the rows of the hops.
_NUMBERS = 2  # batch, group; then a class of links per hop
_VALUES = 3  # size, left, rate; then a demand per hop


class FlowTable:
    """The links and the progress of each flow.

    The properties are views, valid until a flow is added or removed. A row of ``links`` and
    ``demand`` is a hop: a class of links (0: none), and the rate that the flow takes of it per B/s
    of its own.
    """

    def __init__(self) -> None:
        self.count = 0
        self._numbers = np.zeros((_NUMBERS, 0), dtype=np.int64)
        self._values = np.zeros((_VALUES, 0))

    @property
    def batch(self) -> IntArray:
        """The number of the call that sent each flow."""
        return self._numbers[0, : self.count]

    @property
    def group(self) -> IntArray:
        """The number of each flow within its call."""
        return self._numbers[1, : self.count]

    @property
    def links(self) -> IntArray:
        """The classes of links that each flow crosses, (hops, flows)."""
        return self._numbers[_NUMBERS:, : self.count]

    @property
    def size(self) -> FloatArray:
        """Total bytes of each flow."""
        return self._values[0, : self.count]

    @property
    def left(self) -> FloatArray:
        """Bytes of each flow that have not arrived."""
        return self._values[1, : self.count]

    @property
    def rate(self) -> FloatArray:
        """B/s of each flow."""
        return self._values[2, : self.count]

    @property
    def demand(self) -> FloatArray:
        """The rate that each flow takes of each of its links, per B/s of its own, (hops, flows)."""
        return self._values[_VALUES:, : self.count]

    def add(
        self,
        links: IntArray,
        demand: FloatArray,
        size: FloatArray,
        left: FloatArray,
        batch: int,
        group: IntArray,
    ) -> None:
        """Add flows that do not move yet."""
        begin = self.count
        hops = len(links)
        self._reserve(hops, begin + len(size))
        self.count += len(size)

        numbers = self._numbers[:, begin : self.count]
        numbers[0] = batch
        numbers[1] = group
        numbers[_NUMBERS : _NUMBERS + hops] = links
        numbers[_NUMBERS + hops :] = 0

        values = self._values[:, begin : self.count]
        values[0] = size
        values[1] = left
        values[2] = 0.0
        values[_VALUES : _VALUES + hops] = demand
        values[_VALUES + hops :] = 0.0

    def add_one(
        self, links: IntArray, demand: FloatArray, size: float, left: float, batch: int
    ) -> None:
        """Add the only flow of a call; a third of the time of `add`."""
        at, hops = self.count, len(links)
        self._reserve(hops, at + 1)
        self.count += 1
        numbers, values = self._numbers[:, at], self._values[:, at]
        numbers[:_NUMBERS] = batch, 0
        numbers[_NUMBERS : _NUMBERS + hops] = links
        numbers[_NUMBERS + hops :] = 0
        values[:_VALUES] = size, left, 0.0
        values[_VALUES : _VALUES + hops] = demand
        values[_VALUES + hops :] = 0.0

    def remove(self, rows: IntArray) -> None:
        """Remove rows (in ascending order); the last rows take their places."""
        last = self.count - len(rows)  # the new count
        if len(rows) == 1:  # the most common case, many times faster
            self._move(int(rows[0]), self.count - 1)
        elif last:
            holes = rows[rows < last]
            stays = np.ones(self.count - last, dtype=bool)
            stays[rows[len(holes) :] - last] = False  # rows removed at the end leave no hole
            self._move(holes, stays.nonzero()[0] + last)
        self.count = last

    def _move(self, holes: IntArray | int, rows: IntArray | int) -> None:
        for table in (self._numbers, self._values):
            table[:, holes] = table[:, rows]

    def split(self, child_of: IntArray) -> None:
        """Make flows that cross a class also cross its child (0: none), with the same demand."""
        child = child_of[self.links]
        hops, rows = np.nonzero(child)
        if not len(rows):
            return
        # Sorted by flow, then hop: a flow's new children go after its last hop, one after another.
        order = np.argsort(rows, kind="stable")
        hops, rows = hops[order], rows[order]
        first = np.flatnonzero(np.diff(rows, prepend=-1))
        of_flow = np.arange(len(rows)) - np.repeat(first, np.diff(first, append=len(rows)))
        end = np.count_nonzero(self.links, axis=0)[rows] + of_flow
        self._reserve(int(end.max()) + 1, self.count)
        self.links[end, rows] = child[hops, rows]
        self.demand[end, rows] = self.demand[hops, rows]

    def advance(self, seconds: float) -> None:
        """Move all flows at their rates."""
        left = self.left  # a view: changing it changes the table
        left -= self.rate * seconds

    def ended(self, now: float) -> IntArray:
        """Return the flows that have finished, up to rounding at a clock of ``now``."""
        size, left, rate = self._values[:_VALUES, : self.count]
        nearly_nothing = _NEARLY_NOTHING * size + rate * (now * _ROUNDING)
        (rows,) = (left <= nearly_nothing).nonzero()
        return np.asarray(rows)

    def next_end(self) -> float:
        """Return the seconds until the first flow ends at current rates: infinite if none moves."""
        left, rate = self.left, self.rate
        if not len(rate):
            return np.inf
        if np.minimum.reduce(rate) > 0:  # the common case: np.errstate takes longer than the rest
            return float(np.minimum.reduce(left / rate))
        with np.errstate(divide="ignore"):  # a flow without a rate never ends
            return float(np.minimum.reduce(left / rate))

    def _reserve(self, hops: int, count: int) -> None:
        """Make room for ``hops`` and ``count`` flows; room for flows at least doubles."""
        had = len(self._numbers) - _NUMBERS
        hops = max(hops, had)
        room = self._numbers.shape[1]
        if hops == had and count <= room:
            return
        if count > room:
            room = max(count, 2 * room)
        self._numbers = _grown(self._numbers, _NUMBERS + hops, room)
        self._values = _grown(self._values, _VALUES + hops, room)


def _grown(table: NDArray[Any], rows: int, columns: int) -> NDArray[Any]:
    """Return a larger table with the same contents, and 0 elsewhere."""
    larger = np.zeros((rows, columns), table.dtype)
    larger[: len(table), : table.shape[1]] = table
    return larger
