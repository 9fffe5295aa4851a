"""Ring reduce-scatter.

In m-1 rounds each chunk travels once round the ring; every hop adds one rank's part.

Exact: (m-1) (o + alpha + c beta + c gamma), c the largest chunk. Source: Patarasuk and Yuan, JPDC
69, 2009.
"""

from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.rings import Rings
from dpsim.collectives.schedule import Chunking, Schedule, ranks_array


def compile_ring(layout: RankLayout) -> Schedule:
    """In round k rank i sends chunk i-1-k to rank i+1, so that chunk i is complete at rank i."""
    ranks = layout.ranks
    rank = ranks_array(ranks)
    around = Rings(rank, rank, (rank + 1) % ranks, ranks).reduce_scatter()
    return Schedule("reduce-scatter", "ring", ranks, ranks, around)


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: (m-1) (o + alpha + c beta + c gamma)."""
    return (layout.ranks - 1) * (costs.message(chunking.largest) + chunking.largest * costs.gamma)


REDUCE_SCATTER = Algorithm(
    "reduce-scatter",
    "ring",
    "each chunk travels once round the ring and ends, summed, at its owner",
    "Patarasuk and Yuan, JPDC 69, 2009",
    compile_ring,
    exact_time,
)
