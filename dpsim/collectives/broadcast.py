"""Binomial-tree broadcast from rank 0. Exact: L (o + alpha + S beta), L = ceil(log2 m).

Source: Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005.
"""

from dpsim.collectives import binomial
from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.schedule import Chunking, Schedule


def compile_broadcast(layout: RankLayout) -> Schedule:
    """Compile sends of the whole vector down the tree, the largest subtree first."""
    ranks = layout.ranks
    return Schedule("broadcast", "tree", ranks, 1, binomial.down(ranks, 1))


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: L (o + alpha + S beta)."""
    return len(binomial.levels(layout.ranks)) * costs.message(chunking.total)


BROADCAST = Algorithm(
    "broadcast",
    "tree",
    "the vector handed down a binomial tree",
    "Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005",
    compile_broadcast,
    exact_time,
)
