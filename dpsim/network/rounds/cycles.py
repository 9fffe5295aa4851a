"""The cycles of a pattern in which every sender sends and receives one message: rings or pairs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Cycles:
    """The cycle of each sender, in the pattern's order, numbered from 0.

    ``first`` is the least rank of each cycle, ``longest`` the number of ranks in the longest,
    ``successor`` the rank to which each rank sends.
    """

    of_sender: IntArray
    first: IntArray
    longest: int
    successor: IntArray

    @property
    def count(self) -> int:
        """The number of cycles."""
        return len(self.first)

    def most(self, values: FloatArray) -> FloatArray:
        """Return the largest of ``values``, one per sender in pattern order, in each cycle."""
        senders, begins = self._by_cycle
        return np.asarray(np.maximum.reduceat(values[senders], begins))

    @cached_property
    def _by_cycle(self) -> tuple[IntArray, IntArray]:
        """The senders' indices in the pattern, sorted by cycle, and where each cycle begins."""
        senders = np.argsort(self.of_sender, kind="stable")
        return senders, np.searchsorted(self.of_sender[senders], np.arange(self.count))

    @cached_property
    def in_order(self) -> IntArray | None:
        """The ranks of each cycle in sending order, (cycles, ranks).

        None if the cycles differ in length.
        """
        if self.count * self.longest != len(self.of_sender):
            return None
        successor = self.successor.tolist()
        order: list[int] = []
        for first in self.first.tolist():
            rank = first
            for _ in range(self.longest):
                order.append(rank)
                rank = successor[rank]
        return np.array(order).reshape(self.count, self.longest)


def cycles_of(source: IntArray, destination: IntArray, ranks: int) -> Cycles | None:
    """Return the cycles of source -> destination, or None if that is no permutation."""
    sends = np.bincount(source, minlength=ranks)
    receives = np.bincount(destination, minlength=ranks)
    # Every rank that sends must receive from exactly one, so that the transfers form cycles.
    if np.any(sends > 1) or np.any(receives != sends):
        return None
    successor = np.arange(ranks)
    successor[source] = destination
    label = _labels(successor)[source]
    first, of_sender, sizes = np.unique(label, return_inverse=True, return_counts=True)
    return Cycles(of_sender, first, int(sizes.max(initial=1)), successor)


def _labels(successor: IntArray) -> IntArray:
    """Return the least rank of each rank's cycle.

    Pointer doubling takes log2(ranks) passes over the vector, each looking twice as far ahead.
    """
    label = np.arange(len(successor))
    jump = successor.copy()
    for _ in range(len(successor).bit_length()):
        label = np.minimum(label, label[jump])
        jump = jump[jump]
    return label
