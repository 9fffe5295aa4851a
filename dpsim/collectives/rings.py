"""Concurrent rings, the building blocks of ring, hierarchical and torus algorithms."""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.base.arrays import IntArray
from dpsim.collectives.algorithm import Costs
from dpsim.collectives.schedule import Cyclic, Phase, fixed


@dataclass(frozen=True, slots=True, eq=False)
class Rings:
    """Equal rings of ``length`` ranks, as arrays with one entry per rank.

    ``rank`` is at ``place`` of its ring and sends to ``successor``. A ring's part of the vector
    begins at chunk ``base`` and has ``length`` blocks of ``stride`` chunks.
    """

    rank: IntArray
    place: IntArray
    successor: IntArray
    length: int
    base: IntArray | int = 0
    stride: int = 1

    def reduce_scatter(self, ahead: int = 0) -> tuple[Phase, ...]:
        """Return phases in which, in round k, place i sends block i+ahead-1-k; none for one rank.

        At the end, block i+ahead is complete at place i.
        """
        return self._around(self.place + ahead - 1, reduce=True)

    def all_gather(self, ahead: int = 0) -> tuple[Phase, ...]:
        """Return phases in which, in round k, place i sends block i+ahead-k; none for one rank."""
        return self._around(self.place + ahead, reduce=False)

    def _around(self, first: IntArray, *, reduce: bool) -> tuple[Phase, ...]:
        turns = self.length - 1
        if not turns:
            return ()
        block = Cyclic(first, self.length, shift=-1, base=self.base, stride=self.stride)
        successor = fixed(self.successor)
        return (Phase(self.rank, successor, block, reduce, count=self.stride, turns=turns),)


def all_reduce_time(length: int, block: float, costs: Costs) -> float:
    """Return the seconds of a reduce-scatter and an all-gather round a ring of ``length``.

    2 (l-1) (o + alpha + b beta) + (l-1) b gamma, b the bytes of the largest ``block``: it goes
    round the ring twice, and every hop waits for the previous one.
    """
    return (length - 1) * (2 * costs.message(block) + block * costs.gamma)
