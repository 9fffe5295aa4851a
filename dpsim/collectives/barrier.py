"""Dissemination barrier.

In round k rank i signals rank i + 2^k; after ceil(log2 m) rounds every rank has, directly or
through others, a signal of every rank.

Exact: ceil(log2 m) (o + alpha); no data. Source: Hensgen, Finkel and Manber, "Two algorithms for
barrier synchronization", 1988.
"""

from dpsim.collectives import binomial
from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.schedule import Chunking, Phase, Schedule, fixed, ranks_array


def compile_dissemination(layout: RankLayout) -> Schedule:
    """Compile messages without chunks over distances 1, 2, 4, ..."""
    ranks = layout.ranks
    rank = ranks_array(ranks)
    signals = (
        # Distances double: after round k each rank has signals of 2^(k+1) - 1 others.
        Phase(rank, fixed((rank + 2**level) % ranks), fixed(rank * 0), reduce=False, count=0)
        for level in binomial.levels(ranks)
    )
    return Schedule("barrier", "dissemination", ranks, 1, tuple(signals))


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: ceil(log2 m) (o + alpha)."""
    return len(binomial.levels(layout.ranks)) * costs.message(0)


BARRIER = Algorithm(
    "barrier",
    "dissemination",
    "signals over distances 1, 2, 4, ...",
    "Hensgen, Finkel and Manber, International Journal of Parallel Programming 17, 1988",
    compile_dissemination,
    exact_time,
)
