"""Personalised all-to-all.

Rank i has a separate chunk for every rank; in round t it sends the one for rank i+t.

The chunk of sender i for receiver j has number i m + j: m vectors, one per sender. Exact: (m-1) (o
+ alpha + c beta), c the largest chunk, which rank 0 receives in every round. Source: the pairwise
exchange of Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005.
"""

from dpsim.collectives.algorithm import Algorithm, RankLayout
from dpsim.collectives.all_gather import exact_time
from dpsim.collectives.schedule import Cyclic, Phase, Schedule, ranks_array


def compile_pairwise(layout: RankLayout) -> Schedule:
    """Compile m-1 rounds; in each, every rank sends one chunk and receives one."""
    ranks = layout.ranks
    rank = ranks_array(ranks)
    # Turn t sends to rank i+t+1, whose chunk has that number in the sender's own vector.
    chunk = Cyclic(rank + 1, ranks, shift=1, base=rank * ranks)
    rotate = Phase(rank, Cyclic(rank + 1, ranks, shift=1), chunk, reduce=False, turns=ranks - 1)
    return Schedule(
        "all-to-all", "pairwise", ranks, ranks, (rotate,) if ranks > 1 else (), vectors=ranks
    )


ALL_TO_ALL_PERSONALISED = Algorithm(
    "all-to-all",
    "pairwise",
    "rank i exchanges with rank i+t in round t",
    "Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005",
    compile_pairwise,
    exact_time,
)
