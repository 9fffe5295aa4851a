"""Ring reduce-scatter: in m-1 rounds each chunk travels once round the ring, growing by one rank's part at every hop.

Exact: (m-1) (o + alpha + c beta + c gamma), c the largest chunk. Source: Patarasuk and Yuan, JPDC 69, 2009.
"""

from dpsim.collectives.algorithm import Algorithm, Costs
from dpsim.collectives.schedule import Cyclic, Phase, Schedule, Split, fixed, ranks_array


def compile_ring(ranks: int) -> Schedule:
    """In round k rank i sends chunk i-1-k to rank i+1, so that chunk i is whole at rank i in the end."""
    rank = ranks_array(ranks)
    around = Phase(rank, fixed((rank + 1) % ranks), Cyclic(rank - 1, ranks, shift=-1), reduce=True, turns=ranks - 1)
    return Schedule("reduce-scatter", "ring", ranks, ranks, (around,) if ranks > 1 else ())


def exact_time(ranks: int, split: Split, costs: Costs) -> float:
    """Seconds: (m-1) (o + alpha + c beta + c gamma)."""
    return (ranks - 1) * (costs.message(split.largest) + split.largest * costs.gamma)


REDUCE_SCATTER = Algorithm(
    "reduce-scatter",
    "ring",
    "each chunk travels once round the ring and ends, summed, at its owner",
    "Patarasuk and Yuan, JPDC 69, 2009",
    compile_ring,
    exact_time,
)
