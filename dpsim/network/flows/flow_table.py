"""The flows under way, a row each, in two tables that keep room for more."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray

_ROUNDING = 1e-15  # of the clock: what adding up times can be off by
_NEARLY_NOTHING = 1e-12  # of a flow's bytes


class FlowTable:
    """Where each flow goes and how far it is.

    The properties are views, good until a flow is added or removed.

    A row of ``links`` and ``demand`` is a hop: a class of links (0: none), and what the flow takes
    of it per B/s of its rate.
    """

    def __init__(self) -> None:
        self.count = 0
        self._numbers = np.zeros((2, 0), dtype=np.int64)  # batch, group, and a link per hop
        self._values = np.zeros((3, 0))  # size, left, rate, and a demand per hop

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
        """What each flow crosses, (hops, flows)."""
        return self._numbers[2:, : self.count]

    @property
    def size(self) -> FloatArray:
        """Bytes of each flow in all."""
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
        """B/s that each flow takes of each of its links, per B/s of its rate, (hops, flows)."""
        return self._values[3:, : self.count]

    def add(
        self,
        links: IntArray,
        demand: FloatArray,
        size: FloatArray,
        left: FloatArray,
        batch: int,
        group: IntArray,
    ) -> None:
        """Let in flows that do not move yet."""
        begin = self.count
        self._reserve(len(links), begin + len(size))
        self.count += len(size)
        numbers, values = self._numbers[:, begin : self.count], self._values[:, begin : self.count]
        numbers[0], numbers[1] = batch, group
        values[0], values[1], values[2] = size, left, 0.0
        numbers[2 : 2 + len(links)], numbers[2 + len(links) :] = links, 0
        values[3 : 3 + len(links)], values[3 + len(links) :] = demand, 0.0

    def remove(self, rows: IntArray) -> None:
        """Drop rows (in ascending order); the last ones take their places."""
        if len(rows) == 1:  # nearly always so, and many times as fast
            self._move(int(rows[0]), self.count - 1)
        else:
            self._move(*self._moves(rows))
        self.count -= len(rows)

    def _move(self, holes: IntArray | int, rows: IntArray | int) -> None:
        for table in (self._numbers, self._values):
            table[:, holes] = table[:, rows]

    def _moves(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """The rows that become free among those that stay, and the last ones that stay, which move
        there.
        """
        count = self.count - len(rows)
        holes = rows[rows < count]
        return holes, np.delete(np.arange(count, self.count), rows[len(holes) :] - count)

    def split(self, child_of: IntArray) -> None:
        """Let the flows that cross a class cross its child (0: none) as well, in the same way."""
        for hop in range(len(self.links)):
            child = child_of[self.links[hop]]
            rows = np.flatnonzero(child)
            if len(rows):
                end = np.count_nonzero(self.links[:, rows], axis=0)
                self._reserve(int(end.max()) + 1, self.count)
                self.links[end, rows] = child[rows]
                self.demand[end, rows] = self.demand[hop, rows]

    def advance(self, seconds: float) -> None:
        """Let all flows move at their rates."""
        left = self.left
        left -= self.rate * seconds

    def ended(self, now: float) -> IntArray:
        """The flows that are through, but for what rounding leaves at a clock of ``now``."""
        return (self.left <= _NEARLY_NOTHING * self.size + self.rate * (now * _ROUNDING)).nonzero()[
            0
        ]

    def next_end(self) -> float:
        """Seconds until the first flow is through at today's rates: infinite if none moves."""
        with np.errstate(divide="ignore"):
            return float((self.left / self.rate).min(initial=np.inf))

    def _reserve(self, hops: int, count: int) -> None:
        hops = max(hops, len(self._numbers) - 2)
        room = self._numbers.shape[1]
        if hops == len(self._numbers) - 2 and count <= room:
            return
        if count > room:
            room = max(count, 2 * room)
        self._numbers = _grown(self._numbers, 2 + hops, room)
        self._values = _grown(self._values, 3 + hops, room)


def _grown(table: NDArray[Any], rows: int, columns: int) -> NDArray[Any]:
    """A larger table with the same in it, and 0 elsewhere."""
    larger = np.zeros((rows, columns), table.dtype)
    larger[: len(table), : table.shape[1]] = table
    return larger
