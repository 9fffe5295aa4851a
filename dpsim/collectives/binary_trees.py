"""Binary trees that chunks flow through one behind the other.

Reduced up to the root, then broadcast down.

A rank sends at most one message and receives at most one in a round: the edges of the trees are
coloured with two colours such that no rank has two edges of one colour into it, or two out of it,
and the colours take turns. So each chunk of each tree moves a level in one round or two, the next
chunk follows two rounds behind it, and no link is ever shared. Source: Sanders, Speck and Traeff,
"Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing 35, 2009.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.collectives.algorithm import Costs
from dpsim.collectives.schedule import Chunking, Cyclic, Phase, Schedule, Window, fixed, ranks_array


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """The edges of trees over the same ranks, arrays of one entry an edge; ``depth`` is that of the
    child, 1 under the root.
    """

    tree: IntArray
    child: IntArray
    parent: IntArray
    depth: IntArray
    colour: IntArray

    @property
    def colours(self) -> int:
        """How many colours take turns.

        One where no rank has two edges of a kind, as with two ranks, otherwise two.
        """
        return int(self.colour.max(initial=0)) + 1

    def first_up(self, ranks: int) -> IntArray:
        """The first round in which each edge can carry a chunk up.

        Its colour's turn, and after all edges below.
        """
        return self._first(self.child, self.parent, ranks, range(self.depth.max(initial=0), 0, -1))

    def first_down(self, ranks: int) -> IntArray:
        """The first round in which each edge can carry a chunk down.

        Its colour's turn, and after the edge above.
        """
        return self._first(self.parent, self.child, ranks, range(1, self.depth.max(initial=0) + 1))

    def _first(self, source: IntArray, destination: IntArray, ranks: int, order: range) -> IntArray:
        first = np.zeros_like(self.tree)
        ready = np.zeros((self.tree.max(initial=0) + 1, ranks), dtype=np.int64)
        for depth in order:
            edges = np.flatnonzero(self.depth == depth)
            tree, earliest = self.tree[edges], ready[self.tree[edges], source[edges]]
            first[edges] = earliest + (self.colour[edges] - earliest) % self.colours
            np.maximum.at(ready, (tree, destination[edges]), first[edges] + 1)
        return first


@lru_cache(maxsize=16)
def edges(ranks: int, trees: int) -> Edges:
    """The edges of one in-order binary tree, or of two such that no rank has more than two children
    in both together.

    Place 0 is the root and has one child; the odd places are leaves. The second tree is the first
    one mirrored for an even number of ranks, and shifted by one for an odd number, so that the
    leaves of one are inner in the other (as in NCCL).
    """
    above, place = _parents(ranks), ranks_array(ranks)
    second = ranks - 1 - place if ranks % 2 == 0 else (place + 1) % ranks
    stands = (place, second)[:trees]
    child = np.concatenate([rank[1:] for rank in stands])
    parent = np.concatenate([rank[above[1:]] for rank in stands])
    depth = np.tile(_depths(above)[1:], trees)
    return Edges(
        np.repeat(ranks_array(trees), ranks - 1), child, parent, depth, _two_colours(child, parent)
    )


def _parents(ranks: int) -> IntArray:
    """The parent of each place, -1 for the root.

    The lowest set bit goes up by one place, or away where there is no such rank.
    """
    place = ranks_array(ranks)
    lowest = place & -place
    parent = (place ^ lowest) | (lowest << 1)
    return np.where(place == 0, -1, np.where(parent < ranks, parent, place ^ lowest))


def _depths(parent: IntArray) -> IntArray:
    depth, above = np.zeros_like(parent), parent.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return depth


def _two_colours(child: IntArray, parent: IntArray) -> IntArray:
    """A colour, 0 or 1, for each edge, unlike that of the other edge of its child and that of the
    other edge of its parent.

    There is one: edges that must differ form paths and cycles, in which the two ends take turns, so
    that cycles are even.
    """
    unlike = list(zip(_other(child), _other(parent), strict=True))
    colour = [-1] * len(child)
    for start in range(len(child)):
        to_do = [(start, 0)]
        while to_do:
            edge, wanted = to_do.pop()
            if colour[edge] < 0:
                colour[edge] = wanted
                to_do += [(other, 1 - wanted) for other in unlike[edge] if other != edge]
    return np.array(colour, dtype=np.int64)


def _other(ends: IntArray) -> list[int]:
    """For each edge the other one with the same end, itself where there is none; at most two have
    the same.
    """
    order = np.argsort(ends, kind="stable")
    pairs = np.flatnonzero(ends[order][1:] == ends[order][:-1])
    other = np.arange(len(ends))
    other[order[pairs]], other[order[pairs + 1]] = order[pairs + 1], order[pairs]
    return [int(edge) for edge in other]


def reduce_and_broadcast(ranks: int, trees: int, chunks: int) -> tuple[Phase, ...]:
    """All ``chunks`` of each tree up, then all down; tree t has the chunks from ``t * chunks`` on."""
    if ranks == 1:
        return ()
    edge = edges(ranks, trees)
    chunk = Cyclic(0 * edge.tree, chunks, shift=1, base=edge.tree * chunks)
    up, down = (
        Window(first, chunks, edge.colours)
        for first in (edge.first_up(ranks), edge.first_down(ranks))
    )
    return (
        Phase(edge.child, fixed(edge.parent), chunk, reduce=True, turns=up.turns, window=up),
        Phase(edge.parent, fixed(edge.child), chunk, reduce=False, turns=down.turns, window=down),
    )


def lockstep_time(schedule: Schedule, chunking: Chunking, costs: Costs) -> float:
    """Seconds where every round is as long as its longest message and starts when everyone is
    through with the one before.

    R (o + alpha + c beta) + U c gamma for R rounds, of which U reduce: an upper bound, since ranks
    with nothing to do in a round go on without waiting for it.
    """
    reducing = sum(phase.rounds for phase in schedule.phases if np.any(phase.reduce))
    return (
        schedule.rounds * costs.message(chunking.largest)
        + reducing * chunking.largest * costs.gamma
    )


def is_equal_and_free(chunking: Chunking, costs: Costs) -> bool:
    """Whether all chunks are equal and messages cost their sender nothing.

    What bounds by lockstep need to be exact.
    """
    return chunking.elements % chunking.chunks == 0 and costs.overhead == 0
