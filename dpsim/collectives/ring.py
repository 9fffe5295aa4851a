"""Ring all-reduce: a ring reduce-scatter, then a ring all-gather; every rank only ever talks to its neighbours.

Per process it sends what the master-worker algorithm sends per process on average: its gain is that nobody is the bottleneck.
Exact for any m >= 1 and any size: 2 (m-1) (o + alpha + c beta) + (m-1) c gamma, c the largest chunk, ceil(n / m) elements: that
chunk goes round the ring twice and every hop waits for the one before.
Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 69, 2009.
"""

from dpsim.collectives import all_gather, reduce_scatter
from dpsim.collectives.algorithm import Algorithm, Costs
from dpsim.collectives.schedule import Schedule, Split


def compile_ring(ranks: int) -> Schedule:
    """Share-reduce, then share-only: m-1 rounds each, a chunk per rank in flight."""
    parts = (reduce_scatter.compile_ring(ranks), all_gather.compile_ring(ranks))
    return Schedule("all-reduce", "ring", ranks, ranks, parts[0].phases + parts[1].phases)


def exact_time(ranks: int, split: Split, costs: Costs) -> float:
    """Seconds: 2 (m-1) (o + alpha + c beta) + (m-1) c gamma."""
    return (ranks - 1) * (2 * costs.message(split.largest) + split.largest * costs.gamma)


RING = Algorithm(
    "all-reduce",
    "ring",
    "every rank passes chunks to its neighbour: nobody sends more than 2 (m-1)/m of the vector",
    "Patarasuk and Yuan, JPDC 69, 2009",
    compile_ring,
    exact_time,
)
