"""Butterfly all-reduce: recursive doubling, or for any degree k, recursive multiplying.

In round r the ranks whose numbers differ only in digit r, to the base k, send one another their
whole vectors. ``butterfly`` has k = 2, ``butterfly:4`` k = 4: fewer rounds, more messages in each.

Exact for m = k^n: n ((k-1) o + alpha + (k-1) S (beta + gamma)), k-1 messages share each rank's link
out and each link in. In general the last round has d < k ranks, the rounds join p = d k^n ranks,
and the m - p < k^n surplus ranks fold in before and out after: two more messages of S, and S gamma.
Part of the literature calls the halving-doubling algorithm the butterfly; here it is a separate
algorithm. Sources: Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005; for any degree Ruefenacht, Bull
and Booth, "Generalisation of recursive doubling for AllReduce", Parallel Computing 69, 2017.
"""

from functools import cache, partial

from dpsim.base.errors import DpsimError
from dpsim.collectives import binomial
from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.schedule import Chunking, Cyclic, Phase, Schedule, fixed, ranks_array

_MOST = 2**20  # the largest degree


def degrees(ranks: int, degree: int) -> tuple[list[int], int]:
    """Return how many ranks exchange in each round, and how many ranks the rounds join."""
    rounds, joined = [], 1
    while joined * degree <= ranks:
        rounds.append(degree)
        joined *= degree
    last = ranks // joined
    return ([*rounds, last], joined * last) if last > 1 else (rounds, joined)


def compile_butterfly(degree: int, name: str, layout: RankLayout) -> Schedule:
    """Compile the fold, one exchange for each digit, and the unfold."""
    ranks = layout.ranks
    rounds, joined = degrees(ranks, degree)
    rank, distance, exchanges = ranks_array(joined), 1, []
    for size_of_round in rounds:
        digit = rank // distance % size_of_round
        # Every rank begins with the next one, so that no rank gets two messages in one turn.
        partner = Cyclic(digit + 1, size_of_round, 1, base=rank - digit * distance, stride=distance)
        # One chunk, number 0: the whole vector.
        whole = fixed(rank * 0)
        exchanges.append(Phase(rank, partner, whole, True, turns=size_of_round - 1, at_once=True))
        distance *= size_of_round
    phases = (
        *binomial.fold(ranks, 1, joined),
        *exchanges,
        *binomial.unfold(ranks, 1, joined),
    )
    return Schedule("all-reduce", name, ranks, 1, phases)


def exact_time(degree: int, layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: (d-1) o + alpha + (d-1) S (beta + gamma) per round of d ranks, and the folding."""
    size, ranks = chunking.total, layout.ranks
    rounds, joined = degrees(ranks, degree)
    exchanged = 0.0
    for size_of_round in rounds:
        each = costs.overhead + size * (costs.beta + costs.gamma)
        exchanged += costs.alpha + (size_of_round - 1) * each
    return exchanged + folding_time(ranks - joined, size, costs)


def folding_time(surplus: int, size: int, costs: Costs) -> float:
    """Return the cost of surplus ranks in s: 2 (o + alpha + S beta) + S gamma, or 0."""
    return 2 * costs.message(size) + size * costs.gamma if surplus else 0.0


@cache
def with_degree(degree: int) -> Algorithm:
    """Return the butterfly of ``degree`` ranks a round. Raises DpsimError for one below 2."""
    if not 2 <= degree <= _MOST:
        raise DpsimError(f"butterfly must have a degree from 2 to {_MOST:,}, but got {degree:,}")
    name = "butterfly" if degree == 2 else f"butterfly:{degree}"
    return Algorithm(
        "all-reduce",
        name,
        "recursive doubling: whole vectors exchanged over distances 1, 2, 4, ... (butterfly:4: "
        "among 4 ranks a round)"
        if degree == 2
        else f"recursive multiplying: whole vectors exchanged among {degree} ranks a round",
        "Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005"
        if degree == 2
        else "Ruefenacht, Bull and Booth, Parallel Computing 69, 2017",
        partial(compile_butterfly, degree, name),
        partial(exact_time, degree),
    )


ALGORITHM = with_degree(2)
