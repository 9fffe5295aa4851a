"""Ring all-reduce.

A ring reduce-scatter, then a ring all-gather; every rank communicates only with its neighbours.

On average a rank sends as much as in the master-worker algorithm, but there is no bottleneck. Exact
for any m >= 1 and any size: 2 (m-1) (o + alpha + c beta) + (m-1) c gamma, c the largest chunk,
ceil(n / m) elements: that chunk goes round the ring twice and every hop waits for the previous one.
Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 69, 2009.
"""

from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.rings import Rings, all_reduce_time
from dpsim.collectives.schedule import Chunking, Schedule, ranks_array


def compile_ring(layout: RankLayout) -> Schedule:
    """Compile reduce-scatter and all-gather: m-1 rounds each, a chunk per rank."""
    ranks = layout.ranks
    rank = ranks_array(ranks)
    rings = Rings(rank, rank, (rank + 1) % ranks, ranks)
    # Each rank begins with the block of its own number, as in textbooks.
    phases = rings.reduce_scatter(ahead=1) + rings.all_gather(ahead=1)
    return Schedule("all-reduce", "ring", ranks, ranks, phases)


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: 2 (m-1) (o + alpha + c beta) + (m-1) c gamma."""
    return all_reduce_time(layout.ranks, chunking.largest, costs)


ALGORITHM = Algorithm(
    "all-reduce",
    "ring",
    "every rank passes chunks to its neighbour: nobody sends more than 2 (m-1)/m of the vector",
    "Patarasuk and Yuan, JPDC 69, 2009",
    compile_ring,
    exact_time,
)
