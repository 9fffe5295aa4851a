"""Binary trees through which chunks are pipelined, up to the root and down again.

Chunks are reduced on the way up, then broadcast down. A rank sends at most one message and receives
at most one in a round: the edges of the trees are coloured with two colours such that no rank has
two edges of one colour into it, or two out of it, and the colours take turns. Each chunk of each
tree therefore moves one level in one or two rounds, the next chunk follows two rounds later, and no
link is shared. Source: Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth
broadcast, reduction and scan", Parallel Computing 35, 2009.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.schedule import Chunking, Cyclic, Phase, Schedule, Window, fixed, ranks_array


@dataclass(frozen=True, slots=True, eq=False)
class Edges:
    """The edges of trees over the same ranks, arrays of one entry per edge.

    ``depth`` is that of the child, 1 under the root.
    """

    tree: IntArray
    child: IntArray
    parent: IntArray
    depth: IntArray
    colour: IntArray

    @property
    def colours(self) -> int:
        """The number of colours that take turns.

        One if no rank has two edges in or out, as with two ranks, otherwise two.
        """
        return int(self.colour.max(initial=0)) + 1

    def first_up(self, ranks: int) -> IntArray:
        """Return the first round in which each edge can carry a chunk up.

        It is in its colour's turn, and after all edges below.
        """
        upwards = range(self._deepest, 0, -1)
        return self._first(self.child, self.parent, ranks, upwards)

    def first_down(self, ranks: int) -> IntArray:
        """Return the first round in which each edge can carry a chunk down.

        It is in its colour's turn, and after the edge above.
        """
        downwards = range(1, self._deepest + 1)
        return self._first(self.parent, self.child, ranks, downwards)

    @property
    def _deepest(self) -> int:
        return int(self.depth.max(initial=0))

    def _first(self, source: IntArray, destination: IntArray, ranks: int, order: range) -> IntArray:
        first = np.zeros_like(self.tree)
        # (trees, ranks): the first round in which a rank has a whole chunk of a tree to pass on.
        ready = np.zeros((self.tree.max(initial=0) + 1, ranks), dtype=np.int64)
        for depth in order:
            edges = np.flatnonzero(self.depth == depth)
            tree = self.tree[edges]
            earliest = ready[tree, source[edges]]
            until_its_turn = (self.colour[edges] - earliest) % self.colours
            first[edges] = earliest + until_its_turn
            # A rank can pass a chunk on in the round after it has arrived from all sides.
            np.maximum.at(ready, (tree, destination[edges]), first[edges] + 1)
        return first


@lru_cache(maxsize=16)
def edges(ranks: int, trees: int) -> Edges:
    """Return the edges of one in-order binary tree, or of two that share the work.

    With two trees, no rank has more than two children in both together. Place 0 is the root and has
    one child; the odd places are leaves. The second tree is the first one mirrored for an even
    number of ranks, and shifted by one for an odd number, so that the leaves of one are inner in
    the other (as in NCCL).
    """
    above = _parents(ranks)
    place = ranks_array(ranks)
    # Both map odd places, the leaves, to even ones, the inner ranks.
    second = ranks - 1 - place if ranks % 2 == 0 else (place + 1) % ranks
    rank_at = (place, second)[:trees]  # the rank at each place, by tree
    tree = np.repeat(ranks_array(trees), ranks - 1)
    child = np.concatenate([rank[1:] for rank in rank_at])
    parent = np.concatenate([rank[above[1:]] for rank in rank_at])
    depth = np.tile(_depths(above)[1:], trees)
    return Edges(tree, child, parent, depth, _two_colours(child, parent))


def tree_edges(ranks: int) -> tuple[IntArray, IntArray]:
    """Return child and parent of each edge of the two trees of an all-reduce of ``ranks``."""
    both = edges(ranks, 2)
    return both.child, both.parent


def _parents(ranks: int) -> IntArray:
    """Return the parent of each place, -1 for the root.

    The lowest set bit moves up by one place, or is cleared if there is no such rank.
    """
    place = ranks_array(ranks)
    lowest = place & -place
    without = place ^ lowest
    parent = without | (lowest << 1)
    exists = parent < ranks
    return np.where(place == 0, -1, np.where(exists, parent, without))


def _depths(parent: IntArray) -> IntArray:
    """Return how many edges are above each place."""
    depth = np.zeros_like(parent)
    above = parent.copy()
    while (above >= 0).any():
        depth += above >= 0
        above = np.where(above >= 0, parent[above], -1)
    return depth


def _two_colours(child: IntArray, parent: IntArray) -> IntArray:
    """Return a colour, 0 or 1, for each edge, different from its neighbours' colours.

    The neighbours are the other edge of its child and the other edge of its parent. Such colours
    exist: edges that must differ form paths and cycles that alternate between the two kinds of
    ends, so that cycles are even.
    """
    # Walk along each path or cycle with alternating colours.
    neighbours = list(zip(_other(child), _other(parent), strict=True))
    colour = [-1] * len(child)
    for start in range(len(child)):
        to_do = [(start, 0)]
        while to_do:
            edge, wanted = to_do.pop()
            if colour[edge] < 0:
                colour[edge] = wanted
                to_do += [(other, 1 - wanted) for other in neighbours[edge] if other != edge]
    return np.array(colour, dtype=np.int64)


def _other(ends: IntArray) -> list[int]:
    """Return for each edge the other one with the same end, or itself if there is none.

    At most two edges share an end.
    """
    order = np.argsort(ends, kind="stable")
    sorted_ends = ends[order]
    # After sorting by end, two edges that share one are adjacent.
    pairs = np.flatnonzero(sorted_ends[1:] == sorted_ends[:-1])
    one, another = order[pairs], order[pairs + 1]
    other = np.arange(len(ends))
    other[one] = another
    other[another] = one
    return [int(edge) for edge in other]


def in_chunks(
    name: str,
    summary: str,
    *,
    trees: int,
    chunks: int,
    exact: Callable[[RankLayout, Chunking, Costs], bool],
) -> Algorithm:
    """Return the all-reduce up and down ``trees`` trees, each with ``chunks`` pipelined chunks."""
    assert chunks >= 1, f"a pipeline has at least 1 chunk, but got {chunks}"
    compiled = partial(_compiled, name, trees, chunks)
    return Algorithm(
        "all-reduce",
        name,
        summary,
        "Sanders, Speck and Traeff, Parallel Computing 35, 2009",
        compiled,
        partial(_exact_time, compiled),
        exact,
    )


def _compiled(name: str, trees: int, chunks: int, layout: RankLayout) -> Schedule:
    """Compile all ``chunks`` of each tree up, then all down.

    Tree t has the chunks from ``t * chunks`` on.
    """
    ranks = layout.ranks
    if ranks == 1:
        return Schedule("all-reduce", name, ranks, trees * chunks, ())
    edge = edges(ranks, trees)
    # Each use of an edge carries the next chunk of its tree.
    chunk = Cyclic(0 * edge.tree, chunks, shift=1, base=edge.tree * chunks)
    up = Window(edge.first_up(ranks), chunks, edge.colours)
    down = Window(edge.first_down(ranks), chunks, edge.colours)
    phases = (
        Phase(edge.child, fixed(edge.parent), chunk, reduce=True, turns=up.turns, window=up),
        Phase(edge.parent, fixed(edge.child), chunk, reduce=False, turns=down.turns, window=down),
    )
    return Schedule("all-reduce", name, ranks, trees * chunks, phases)


def _exact_time(
    compiled: Callable[[RankLayout], Schedule],
    layout: RankLayout,
    chunking: Chunking,
    costs: Costs,
) -> float:
    """Seconds: R (o + alpha + c beta) + (R/2) c gamma."""
    # An upper bound if it is not exact: it counts every round as its longest message, after all
    # ranks have finished the previous round, but ranks with nothing to do in a round do not wait.
    schedule = compiled(layout)
    reducing = sum(phase.rounds for phase in schedule.phases if np.any(phase.reduce))
    moved = schedule.rounds * costs.message(chunking.largest)
    return moved + reducing * chunking.largest * costs.gamma


def lockstep_is_exact(chunking: Chunking, costs: Costs) -> bool:
    """Return whether all chunks are equal and messages cost their sender nothing.

    Only then is the time of rounds in lockstep exact.
    """
    return chunking.elements % chunking.chunks == 0 and costs.overhead == 0
