"""Halving-doubling all-reduce (Rabenseifner): reduce-scatter by recursive halving, all-gather by recursive doubling.

Exact for m = 2^k: 2 log2 m (o + alpha) + 2 (m-1)/m S beta + (m-1)/m S gamma where m divides the vector; in general each round
costs its larger half. Otherwise the surplus ranks fold in before and out after: two more messages of S, and S gamma.
Part of the literature calls this the butterfly. Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
"""

import numpy as np

from dpsim.collectives import binomial
from dpsim.collectives.algorithm import Algorithm, Costs
from dpsim.collectives.butterfly import folding_time
from dpsim.collectives.schedule import Phase, Schedule, Split, fixed, ranks_array


def compile_halving_doubling(ranks: int) -> Schedule:
    """Fold, halve over distances p/2 .. 1, double over distances 1 .. p/2, unfold."""
    chunks = binomial.power_of_two(ranks)
    distances = [1 << k for k in range(chunks.bit_length() - 1)]
    halve = tuple(_exchange(chunks, distance, reduce=True) for distance in reversed(distances))
    double = tuple(_exchange(chunks, distance, reduce=False) for distance in distances)
    phases = binomial.fold(ranks, chunks) + halve + double + binomial.unfold(ranks, chunks)
    return Schedule("all-reduce", "halving-doubling", ranks, chunks, phases)


def _exchange(ranks: int, distance: int, *, reduce: bool) -> Phase:
    """Swap blocks of ``distance`` chunks with the rank ``distance`` away: the partner's block to reduce, the own one to copy."""
    rank = ranks_array(ranks)
    partner = rank ^ distance
    owner = partner if reduce else rank
    return Phase(rank, fixed(partner), fixed(owner // distance * distance), reduce, count=distance)


def exact_time(ranks: int, split: Split, costs: Costs) -> float:
    """Seconds: the sum over distances d of 2 (o + alpha + B beta) + B gamma, B the bytes of the first d chunks; and folding."""
    distances = np.array([1 << k for k in range(split.chunks.bit_length() - 1)], dtype=np.int64)
    blocks = split.nbytes(distances * 0, distances)
    exchanged = sum(2 * costs.message(float(block)) + float(block) * costs.gamma for block in blocks)
    return folding_time(ranks, split.total, costs) + exchanged


HALVING_DOUBLING = Algorithm(
    "all-reduce",
    "halving-doubling",
    "reduce-scatter by recursive halving, all-gather by recursive doubling",
    "Rabenseifner, ICCS 2004",
    compile_halving_doubling,
    exact_time,
)
