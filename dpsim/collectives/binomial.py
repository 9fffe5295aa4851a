"""The binomial tree on ranks 0 .. m-1 rooted at 0, and folding to fewer ranks.

Shared by several algorithms.
"""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.collectives.schedule import Phase, fixed, ranks_array


def levels(ranks: int) -> range:
    """The levels of the tree from the leaves up: ceil(log2 ranks) of them."""
    return range((ranks - 1).bit_length())


def children(ranks: int, level: int) -> IntArray:
    """The ranks that hang from ``rank - 2**level`` at ``level``."""
    # Those whose lowest set bit is that of the level: a parent is its child without that bit.
    return np.arange(2**level, ranks, 2 ** (level + 1), dtype=np.int64)


def subtree(ranks: int, level: int) -> IntArray:
    """How many ranks stand below each child of ``level``, itself counted."""
    child = children(ranks, level)
    return np.asarray(np.minimum(child + 2**level, ranks) - child)


def up(ranks: int, chunks: int, *, reduce: bool) -> tuple[Phase, ...]:
    """Every child sends the whole vector of ``chunks`` chunks to its parent, leaves first."""
    phases = []
    for level in levels(ranks):
        child = children(ranks, level)
        phases.append(_whole(child, child - 2**level, chunks, reduce=reduce))
    return tuple(phases)


def down(ranks: int, chunks: int) -> tuple[Phase, ...]:
    """Every parent sends the whole vector of ``chunks`` down, to the largest subtree first."""
    phases = []
    for level in reversed(levels(ranks)):
        child = children(ranks, level)
        phases.append(_whole(child - 2**level, child, chunks, reduce=False))
    return tuple(phases)


def power_of_two(ranks: int) -> int:
    """The largest power of two that is at most ``ranks``."""
    return 1 << (ranks.bit_length() - 1)


def fold(ranks: int, chunks: int, inside: int) -> tuple[Phase, ...]:
    """The ranks past the first ``inside`` give their whole vector to one of those each.

    There is no phase where there are none.
    """
    surplus = ranks_array(ranks)[inside:]
    if not len(surplus):
        return ()
    return (_whole(surplus, surplus - inside, chunks, reduce=True),)


def unfold(ranks: int, chunks: int, inside: int) -> tuple[Phase, ...]:
    """The surplus ranks of `fold` get the result."""
    surplus = ranks_array(ranks)[inside:]
    if not len(surplus):
        return ()
    return (_whole(surplus - inside, surplus, chunks, reduce=False),)


def _whole(source: IntArray, destination: IntArray, chunks: int, *, reduce: bool) -> Phase:
    return Phase(source, fixed(destination), fixed(np.zeros_like(source)), reduce, count=chunks)
