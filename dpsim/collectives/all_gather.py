"""Ring all-gather: in m-1 rounds each rank's chunk travels once round the ring and is kept by everyone.

Exact: (m-1) (o + alpha + c beta), c the largest chunk. Source: Patarasuk and Yuan, JPDC 69, 2009.
"""

from dpsim.collectives.algorithm import Algorithm, Costs
from dpsim.collectives.schedule import Cyclic, Phase, Schedule, Split, fixed, ranks_array


def compile_ring(ranks: int) -> Schedule:
    """In round k rank i sends chunk i-k to rank i+1."""
    rank = ranks_array(ranks)
    around = Phase(rank, fixed((rank + 1) % ranks), Cyclic(rank, ranks, shift=-1), reduce=False, turns=ranks - 1)
    return Schedule("all-gather", "ring", ranks, ranks, (around,) if ranks > 1 else ())


def exact_time(ranks: int, split: Split, costs: Costs) -> float:
    """Seconds: (m-1) (o + alpha + c beta)."""
    return (ranks - 1) * costs.message(split.largest)


ALL_GATHER = Algorithm(
    "all-gather",
    "ring",
    "each rank's chunk travels once round the ring",
    "Patarasuk and Yuan, JPDC 69, 2009",
    compile_ring,
    exact_time,
)
