"""Butterfly all-reduce, recursive doubling.

In round k rank i exchanges the whole vector with rank i xor 2^k.

Exact for m = 2^k: log2 m (o + alpha + S beta + S gamma). Otherwise the surplus ranks fold in before
and out after: two more messages of S, and S gamma. Part of the literature calls the
halving-doubling algorithm the butterfly; here that is its own. Source: Thakur, Rabenseifner and
Gropp, IJHPCA 19, 2005.
"""

from dpsim.collectives import binomial
from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.schedule import Chunking, Phase, Schedule, fixed, ranks_array


def compile_butterfly(layout: RankLayout) -> Schedule:
    """Fold, one exchange per power of two, unfold."""
    ranks = layout.ranks
    rank = ranks_array(binomial.power_of_two(ranks))
    distances = [1 << k for k in range(len(rank).bit_length() - 1)]
    exchanges = tuple(
        # One chunk, number 0: the whole vector.
        Phase(rank, fixed(rank ^ distance), fixed(rank * 0), reduce=True)
        for distance in distances
    )
    phases = binomial.fold(ranks, 1) + exchanges + binomial.unfold(ranks, 1)
    return Schedule("all-reduce", "butterfly", ranks, 1, phases)


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: log2 p (o + alpha + S beta + S gamma), and the folding of the surplus.

    p is the power of two below m.
    """
    ranks = layout.ranks
    size = chunking.total
    exchange = costs.message(size) + size * costs.gamma
    return folding_time(ranks, size, costs) + (ranks.bit_length() - 1) * exchange


def folding_time(ranks: int, size: int, costs: Costs) -> float:
    """Seconds that the surplus ranks past a power of two cost.

    2 (o + alpha + S beta) + S gamma, or nothing.
    """
    if ranks == binomial.power_of_two(ranks):
        return 0.0
    return 2 * costs.message(size) + size * costs.gamma


BUTTERFLY = Algorithm(
    "all-reduce",
    "butterfly",
    "recursive doubling: whole vectors exchanged over distances 1, 2, 4, ...",
    "Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005",
    compile_butterfly,
    exact_time,
)
