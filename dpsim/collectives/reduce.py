"""Binomial-tree reduce to rank 0.

Exact: L (alpha + S beta + S gamma) + k o, L = ceil(log2 m); k = L for m = 2^L, otherwise smaller,
because the children of incomplete subtrees pay their overhead while their parent waits for others.
Source: Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005.
"""

from dpsim.collectives import binomial
from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.schedule import Chunking, Schedule


def compile_reduce(layout: RankLayout) -> Schedule:
    """Compile sends of whole vectors up the tree, leaves first."""
    ranks = layout.ranks
    return Schedule("reduce", "tree", ranks, 1, binomial.up(ranks, 1, reduce=True))


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: t(m) = max(t(p), o + t(m - p)) + alpha + S beta + S gamma; t(1) = 0.

    p is the largest power of two below m.
    """
    return _arrival(layout.ranks, chunking, costs)


def _arrival(ranks: int, chunking: Chunking, costs: Costs) -> float:
    if ranks == 1:
        return 0.0
    # The root's last child is p places away: it sends once its own subtree is summed, and the root
    # receives that once it has summed the nearer ones.
    near = binomial.power_of_two(ranks - 1)
    far = _arrival(ranks - near, chunking, costs)
    waits = max(_arrival(near, chunking, costs), costs.overhead + far)
    return waits + costs.alpha + chunking.total * (costs.beta + costs.gamma)


REDUCE = Algorithm(
    "reduce",
    "tree",
    "whole vectors summed up a binomial tree",
    "Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005",
    compile_reduce,
    exact_time,
)
