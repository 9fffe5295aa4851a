"""Round-robin all-reduce.

Rank i is the home of part i; in round t it sends to rank i+t, first to collect, then to distribute.

Exact: 2 (m-1) (o + alpha + c beta) + (m-1) c gamma, c the largest part, ceil(n / m) elements.
Source: the pairwise (rotation) schedule of Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005, for
both halves of an all-reduce.
"""

from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.rings import all_reduce_time
from dpsim.collectives.schedule import Chunking, Cyclic, Phase, Schedule, fixed, ranks_array


def compile_round_robin(layout: RankLayout) -> Schedule:
    """Compile m-1 rounds in which parts go to their homes, then m-1 in which they return.

    In turn t rank i sends to rank i+t: first its part i+t, then its own.
    """
    ranks = layout.ranks
    rank = ranks_array(ranks)
    partner = Cyclic(rank + 1, ranks, shift=1)
    # A part has the number of its home rank, so the partner's number is also its part's.
    collect = Phase(rank, partner, partner, reduce=True, turns=ranks - 1)
    spread = Phase(rank, partner, fixed(rank), reduce=False, turns=ranks - 1)
    return Schedule(
        "all-reduce", "round-robin", ranks, ranks, (collect, spread) if ranks > 1 else ()
    )


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: 2 (m-1) (o + alpha + c beta) + (m-1) c gamma."""
    return all_reduce_time(layout.ranks, chunking.largest, costs)


ALGORITHM = Algorithm(
    "all-reduce",
    "round-robin",
    "rank i is home of part i and talks to rank i+t in round t",
    "Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005 (pairwise exchange)",
    compile_round_robin,
    exact_time,
)
