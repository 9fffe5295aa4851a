"""Tree all-reduce: reduce up a binomial tree to rank 0, then broadcast down the same tree.

Exact: 2 L (o + alpha + S beta) + L S gamma, L = ceil(log2 m), less the overheads that children of
incomplete subtrees pay while their parent still waits for others (none for m = 2^k). Source:
Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005.
"""

from dpsim.collectives import binomial, broadcast, reduce
from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.schedule import Chunking, Schedule


def compile_tree(layout: RankLayout) -> Schedule:
    """Compile L rounds up and L rounds down, with the whole vector in every message."""
    ranks = layout.ranks
    phases = binomial.up(ranks, 1, reduce=True) + binomial.down(ranks, 1)
    return Schedule("all-reduce", "tree", ranks, 1, phases)


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: the reduction's plus the broadcast's."""
    return reduce.exact_time(layout, chunking, costs) + broadcast.exact_time(
        layout, chunking, costs
    )


ALGORITHM = Algorithm(
    "all-reduce",
    "tree",
    "reduce up a binomial tree, broadcast down it",
    "Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005",
    compile_tree,
    exact_time,
)
