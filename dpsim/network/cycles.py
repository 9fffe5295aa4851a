"""The cycles of a pattern in which every sender also receives exactly one message: rings, pairs, or one ring per node."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsim.topology.network import FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Cycles:
    """The cycle of each sender, in the pattern's order, numbered from 0; and the most ranks in any of them."""

    of_sender: IntArray
    count: int
    longest: int

    def most(self, values: FloatArray) -> FloatArray:
        """The largest of ``values``, one per sender in the pattern's order, in each cycle."""
        most = np.full(self.count, -np.inf)
        np.maximum.at(most, self.of_sender, values)
        return most


def cycles_of(source: IntArray, destination: IntArray, ranks: int) -> Cycles | None:
    """The cycles of the permutation source -> destination, or None where it is not one."""
    sends = np.bincount(source, minlength=ranks)
    heard = np.bincount(destination, minlength=ranks)
    if np.any(sends > 1) or np.any(heard != sends):
        return None
    successor = np.arange(ranks)
    successor[source] = destination
    _, of_sender, sizes = np.unique(_labels(successor)[source], return_inverse=True, return_counts=True)
    return Cycles(of_sender, len(sizes), int(sizes.max(initial=1)))


def _labels(successor: IntArray) -> IntArray:
    """The least rank of each rank's cycle, by pointer doubling: log2(ranks) passes over the vector."""
    label = np.arange(len(successor))
    jump = successor.copy()
    for _ in range(len(successor).bit_length()):
        label = np.minimum(label, label[jump])
        jump = jump[jump]
    return label
