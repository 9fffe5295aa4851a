"""The binomial tree on ranks 0 .. m-1 rooted at 0, and folding to fewer ranks.

Used by several algorithms.
"""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.collectives.schedule import Phase, fixed, ranks_array


def levels(ranks: int) -> range:
    """Return the levels of the tree from the leaves up: ceil(log2 ranks) of them."""
    return range((ranks - 1).bit_length())


def children(ranks: int, level: int) -> IntArray:
    """Return the ranks whose parent is ``rank - 2**level``."""
    # Ranks whose lowest set bit is that of the level: a parent is its child without that bit.
    return np.arange(2**level, ranks, 2 ** (level + 1), dtype=np.int64)


def subtree(ranks: int, level: int) -> IntArray:
    """Return the size of the subtree of each child of ``level``, including itself."""
    child = children(ranks, level)
    return np.asarray(np.minimum(child + 2**level, ranks) - child)


def up(ranks: int, chunks: int, *, reduce: bool) -> tuple[Phase, ...]:
    """Return phases in which children send all ``chunks`` to their parents, leaves first."""
    phases = []
    for level in levels(ranks):
        child = children(ranks, level)
        phases.append(_whole(child, child - 2**level, chunks, reduce=reduce))
    return tuple(phases)


def down(ranks: int, chunks: int) -> tuple[Phase, ...]:
    """Return phases in which parents send all ``chunks`` down, to the largest subtree first."""
    phases = []
    for level in reversed(levels(ranks)):
        child = children(ranks, level)
        phases.append(_whole(child - 2**level, child, chunks, reduce=False))
    return tuple(phases)


def power_of_two(ranks: int) -> int:
    """Return the largest power of two that is at most ``ranks``."""
    return 1 << (ranks.bit_length() - 1)


def fold(ranks: int, chunks: int, inside: int) -> tuple[Phase, ...]:
    """Return the phase in which each surplus rank past ``inside`` adds its vector to another's.

    No phase if there are none.
    """
    surplus = ranks_array(ranks)[inside:]
    if not len(surplus):
        return ()
    return (_whole(surplus, surplus - inside, chunks, reduce=True),)


def unfold(ranks: int, chunks: int, inside: int) -> tuple[Phase, ...]:
    """Return the phase in which the surplus ranks of `fold` receive the result."""
    surplus = ranks_array(ranks)[inside:]
    if not len(surplus):
        return ()
    return (_whole(surplus - inside, surplus, chunks, reduce=False),)


def _whole(source: IntArray, destination: IntArray, chunks: int, *, reduce: bool) -> Phase:
    return Phase(source, fixed(destination), fixed(np.zeros_like(source)), reduce, count=chunks)
