"""Halving-doubling all-reduce (Rabenseifner).

Reduce-scatter by vector halving, all-gather by vector doubling.

Exact for m = 2^k: 2 log2 m (o + alpha) + 2 (m-1)/m S beta + (m-1)/m S gamma if m divides the
vector; in general each round costs its larger half. Otherwise the surplus ranks fold in before and
out after: two more messages of S, and S gamma. Part of the literature calls this the butterfly.
Source: Rabenseifner, "Optimization of collective reduction operations", ICCS 2004.
"""

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.collectives import binomial
from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.all_reduces.butterfly import folding_time
from dpsim.collectives.schedule import Chunking, Phase, Schedule, fixed, ranks_array


def compile_halving_doubling(layout: RankLayout) -> Schedule:
    """Compile the fold, halving over distances 1 .. p/2, doubling over p/2 .. 1, and the unfold.

    The largest blocks go to the nearest ranks.
    """
    chunks = binomial.power_of_two(layout.ranks)
    steps = chunks.bit_length() - 1
    partners = [ranks_array(chunks) ^ (1 << step) for step in range(steps)]
    phases = halve_and_double(layout.ranks, partners)
    return Schedule("all-reduce", "halving-doubling", layout.ranks, chunks, phases)


def halve_and_double(ranks: int, partners: list[IntArray]) -> tuple[Phase, ...]:
    """Return the phases: fold, halve with each of ``partners``, double in reverse, unfold.

    ``partners[k][r]`` is the partner of rank r in step k, p = 2^len(partners) of them; every rank
    reaches every other over them.
    """
    chunks = 1 << len(partners)
    rank = ranks_array(chunks)
    halve, double = [], []
    for step, (partner, block) in enumerate(zip(partners, _blocks(chunks, partners), strict=True)):
        count = chunks >> (step + 1)
        # A rank sends the half that its partner keeps, and continues with its own.
        halve.append(Phase(rank, fixed(partner), fixed(block[partner]), reduce=True, count=count))
        double.append(Phase(rank, fixed(partner), fixed(block), reduce=False, count=count))
    fold, unfold = binomial.fold(ranks, chunks, chunks), binomial.unfold(ranks, chunks, chunks)
    # The last halves are the smallest, and are doubled first.
    return (*fold, *halve, *reversed(double), *unfold)


def _blocks(chunks: int, partners: list[IntArray]) -> list[IntArray]:
    """Return the first chunk that each rank keeps after each step.

    Ranks that are connected by the later steps keep the same half in a step, and their partners the
    other; of the two sets, the one with the lowest rank keeps the lower half.
    """
    # The lowest rank that each reaches with no step, with the last one, with the last two, ...
    lowest = [ranks_array(chunks)]
    for partner in reversed(partners):
        lowest.append(np.minimum(lowest[-1], lowest[-1][partner]))

    steps = len(partners)
    blocks: list[IntArray] = []
    first = np.zeros(chunks, dtype=np.int64)
    for step in range(steps):
        after, with_this = lowest[steps - step - 1], lowest[steps - step]
        upper = after != with_this
        first = first + upper * (chunks >> (step + 1))
        blocks.append(first)
    return blocks


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: the sum of 2 (o + alpha + B beta) + B gamma over the exchanges, and the folding.

    B is the bytes of d chunks, for d = 1, 2, .. p/2.
    """
    exchanges = chunking.chunks.bit_length() - 1
    sizes = np.array([1 << k for k in range(exchanges)], dtype=np.int64)
    blocks = chunking.nbytes(sizes * 0, sizes)
    exchanged = sum(
        2 * costs.message(float(block)) + float(block) * costs.gamma for block in blocks
    )
    return folding_time(layout.ranks - chunking.chunks, chunking.total, costs) + exchanged


ALGORITHM = Algorithm(
    "all-reduce",
    "halving-doubling",
    "reduce-scatter by recursive halving, all-gather by recursive doubling",
    "Rabenseifner, ICCS 2004",
    compile_halving_doubling,
    exact_time,
)
