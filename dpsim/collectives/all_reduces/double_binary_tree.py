"""Double binary tree all-reduce.

Two binary trees, each with half of the vector, pipelined in k chunks per tree.

A leaf of one tree is inner in the other, so that every rank sends about S up and S down, half of it
in each tree: the bandwidth of a ring with a logarithmic number of rounds. Time at most R (o + alpha
+ c beta) + U c gamma: c the largest of 2 k chunks, R rounds, of which U reduce, about 2 (2 k + 2
log2 m) and half of that. Exact without overhead if 2 k divides the elements and m = 2^h, h odd,
where R = 2 (2 k + 2 h - 3), and for m <= 2; otherwise some rounds overlap, by at most two messages
if only messages cost. Source: Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth
broadcast, reduction and scan", Parallel Computing 35, 2009; Jeaugey, "Massively scale your deep
learning training with NCCL 2.4", 2019.
"""

from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.binary_trees import in_chunks, lockstep_is_exact
from dpsim.collectives.schedule import Chunking

_CHUNKS = 16  # a library would choose it by size: more for a longer vector


def with_chunks(chunks: int) -> Algorithm:
    """Return the algorithm with ``chunks`` chunks per tree."""
    return in_chunks(
        "double-binary-tree",
        "two complementary binary trees, each with half of the vector, pipelined in chunks",
        trees=2,
        chunks=chunks,
        exact=is_exact,
    )


def is_exact(layout: RankLayout, chunking: Chunking, costs: Costs) -> bool:
    """Return whether chunks are equal, without overhead, on 1 rank or 2^h ranks, h odd."""
    ranks = layout.ranks
    # 2^h has h + 1 bits, so h is odd if their number is even.
    odd_power = ranks & (ranks - 1) == 0 and ranks.bit_length() % 2 == 0
    return ranks == 1 or (odd_power and lockstep_is_exact(chunking, costs))


ALGORITHM = with_chunks(_CHUNKS)
