"""Halving-doubling all-reduce (Rabenseifner): reduce-scatter by vector halving, all-gather by vector doubling.

Exact for m = 2^k: 2 log2 m (o + alpha) + 2 (m-1)/m S beta + (m-1)/m S gamma where m divides the vector; in general each round
costs its larger half. Otherwise the surplus ranks fold in before and out after: two more messages of S, and S gamma.
Part of the literature calls this the butterfly. Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
"""

import numpy as np

from dpsim.collectives import binomial
from dpsim.collectives.algorithm import Algorithm, Costs
from dpsim.collectives.butterfly import folding_time
from dpsim.collectives.schedule import IntArray, Phase, Schedule, Split, fixed, ranks_array


def compile_halving_doubling(ranks: int) -> Schedule:
    """Fold, halve over distances 1 .. p/2, double over distances p/2 .. 1, unfold: the largest blocks go to the nearest ranks."""
    chunks = binomial.power_of_two(ranks)
    levels = range(chunks.bit_length() - 1)
    halve = tuple(_exchange(chunks, level, reduce=True) for level in levels)
    double = tuple(_exchange(chunks, level, reduce=False) for level in reversed(levels))
    phases = binomial.fold(ranks, chunks) + halve + double + binomial.unfold(ranks, chunks)
    return Schedule("all-reduce", "halving-doubling", ranks, chunks, phases)


def _exchange(ranks: int, level: int, *, reduce: bool) -> Phase:
    """Swap blocks with the rank 2**level away: the partner's block to reduce, the own one to copy."""
    rank = ranks_array(ranks)
    partner = rank ^ (1 << level)
    block = _first_chunk(partner if reduce else rank, ranks, level)
    return Phase(rank, fixed(partner), fixed(block), reduce, count=ranks >> (level + 1))


def _first_chunk(rank: IntArray, ranks: int, level: int) -> IntArray:
    """Where a rank's block begins once it has halved at levels 0 .. level: bit k of its number chooses half k."""
    halves = [((rank >> k) & 1) * (ranks >> (k + 1)) for k in range(level + 1)]
    return np.asarray(np.sum(halves, axis=0))


def exact_time(ranks: int, split: Split, costs: Costs) -> float:
    """Seconds: the sum over d = 1, 2, .. p/2 of 2 (o + alpha + B beta) + B gamma, B the bytes of d chunks; and the folding."""
    sizes = np.array([1 << k for k in range(split.chunks.bit_length() - 1)], dtype=np.int64)
    blocks = split.nbytes(sizes * 0, sizes)
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
