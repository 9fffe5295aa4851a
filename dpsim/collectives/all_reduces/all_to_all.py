"""All-to-all all-reduce.

In one round every rank sends its whole vector to all others and adds up what it receives.

Exact, for m > 1: (m-1) o + alpha + (m-1) S beta + (m-1) S gamma: m-1 messages share each rank's
link out and each link in. Source: the naive baseline of the all-reduce literature, for instance
Thakur et al., IJHPCA 19, 2005.
"""

from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.schedule import Chunking, Cyclic, Phase, Schedule, fixed, ranks_array


def compile_all_to_all(layout: RankLayout) -> Schedule:
    """Compile one round; in turn t every rank sends to the rank t+1 places on."""
    ranks = layout.ranks
    rank = ranks_array(ranks)
    exchange = Phase(
        rank,
        # Every rank begins with its neighbour, so that no rank gets two messages in one turn.
        Cyclic(rank + 1, ranks, shift=1),
        fixed(rank * 0),
        reduce=True,
        turns=ranks - 1,
        at_once=True,
    )
    return Schedule("all-reduce", "all-to-all", ranks, 1, (exchange,) if ranks > 1 else ())


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: (m-1) o + alpha + (m-1) S (beta + gamma)."""
    ranks = layout.ranks
    if ranks == 1:
        return 0.0
    return costs.alpha + (ranks - 1) * (
        costs.overhead + chunking.total * (costs.beta + costs.gamma)
    )


ALGORITHM = Algorithm(
    "all-reduce",
    "all-to-all",
    "everyone sends its whole vector to everyone in one round",
    "Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005 (the naive baseline)",
    compile_all_to_all,
    exact_time,
)
