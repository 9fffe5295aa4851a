"""Ring all-gather.

In m-1 rounds each rank's chunk passes once round the ring, and every rank keeps it.

Exact: (m-1) (o + alpha + c beta), c the largest chunk. Source: Patarasuk and Yuan, JPDC 69, 2009.
"""

from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.rings import Rings
from dpsim.collectives.schedule import Chunking, Schedule, ranks_array


def compile_all_gather(layout: RankLayout) -> Schedule:
    """In round k rank i sends chunk i-k to rank i+1."""
    ranks = layout.ranks
    rank = ranks_array(ranks)
    phases = Rings(rank, rank, (rank + 1) % ranks, ranks).all_gather()
    return Schedule("all-gather", "ring", ranks, ranks, phases)


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: (m-1) (o + alpha + c beta)."""
    return (layout.ranks - 1) * costs.message(chunking.largest)


ALL_GATHER = Algorithm(
    "all-gather",
    "ring",
    "each rank's chunk travels once round the ring",
    "Patarasuk and Yuan, JPDC 69, 2009",
    compile_all_gather,
    exact_time,
)
