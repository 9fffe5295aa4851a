"""Pipelined tree all-reduce.

Reduce up a binary tree, then broadcast down it, in k pipelined chunks.

An inner rank has two children, whose messages take turns, so that 2 S go through its link each way;
a binomial tree would have log2 m S at the root, pipelined or not. Time at most R (o + alpha + c
beta) + U c gamma: c the largest of k chunks, R rounds, of which U reduce, about 2 (2 k + 2 log2 m)
and half of that. Exact without overhead if k divides the elements and m = 2^h, where R = 2 (2 k
+ 2 h - 3), or 2 k for m = 2; otherwise some rounds overlap, by at most two messages if only
messages cost. Source: one tree of Sanders, Speck and Traeff, "Two-tree algorithms for full
bandwidth broadcast, reduction and scan", Parallel Computing 35, 2009.
"""

from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.binary_trees import in_chunks, lockstep_is_exact
from dpsim.collectives.schedule import Chunking

_CHUNKS = 16  # a library would choose it by size: more for a longer vector


def with_chunks(chunks: int) -> Algorithm:
    """Return the algorithm with ``chunks`` chunks."""
    return in_chunks(
        "pipelined-tree",
        "reduce up a binary tree, broadcast down it, in chunks one behind the other",
        trees=1,
        chunks=chunks,
        exact=is_exact,
    )


def is_exact(layout: RankLayout, chunking: Chunking, costs: Costs) -> bool:
    """Return whether chunks are equal, without overhead, and the ranks a power of two."""
    ranks = layout.ranks
    return ranks == 1 or (ranks & (ranks - 1) == 0 and lockstep_is_exact(chunking, costs))


ALGORITHM = with_chunks(_CHUNKS)
