"""Binomial-tree gather to rank 0: each child passes on all the chunks of its subtree.

Exact: t(first, m) = max(t(first, p), o + t(first + p, m - p)) + alpha + B beta, p the largest power
of two below m and B the bytes of the chunks of the m - p ranks from first + p on. Source: Thakur,
Rabenseifner and Gropp, IJHPCA 19, 2005.
"""

import numpy as np

from dpsim.collectives import binomial
from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.schedule import Chunking, Phase, Schedule, fixed


def compile_gather(layout: RankLayout) -> Schedule:
    """Compile blocks of 1, 2, 4, ... chunks up the tree, leaves first."""
    ranks = layout.ranks
    phases = tuple(_blocks(ranks, level) for level in binomial.levels(ranks))
    return Schedule("gather", "tree", ranks, ranks, phases)


def _blocks(ranks: int, level: int) -> Phase:
    child = binomial.children(ranks, level)
    chunks = binomial.subtree(ranks, level)
    # A subtree is consecutive ranks, and so are their chunks, beginning with the child's own.
    return Phase(child, fixed(child - 2**level), fixed(child), reduce=False, count=chunks)


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: t(0, m), t(i, m) = max(t(i, p), o + t(i+p, m-p)) + alpha + B beta; t(i, 1) = 0."""
    return _arrival(0, layout.ranks, chunking, costs)


def _arrival(first: int, ranks: int, chunking: Chunking, costs: Costs) -> float:
    """Return when rank ``first`` has the chunks of ``ranks`` ranks, itself the first (s)."""
    if ranks == 1:
        return 0.0
    # The root of the last subtree is rank first + p. It sends once it has all of its subtree, and
    # the receiver takes that once it has finished with the nearer ones.
    near = binomial.power_of_two(ranks - 1)
    far = _arrival(first + near, ranks - near, chunking, costs)
    block = chunking.nbytes(np.array(first + near), np.array(ranks - near))
    waits = max(_arrival(first, near, chunking, costs), costs.overhead + far)
    return waits + costs.alpha + float(block) * costs.beta


GATHER = Algorithm(
    "gather",
    "tree",
    "every rank's chunk passed up a binomial tree",
    "Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005",
    compile_gather,
    exact_time,
)
