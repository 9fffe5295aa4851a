"""Binomial-tree scatter from rank 0: the gather in reverse.

Exact: the root's sends, one after another, the sum over levels of o + alpha + B_k beta, B_k the
bytes of chunks 2^k .. 2^(k+1)-1 (those that exist); no other chain is longer, because its blocks
are later and so not larger. Source: Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005.
"""

import numpy as np

from dpsim.collectives import binomial
from dpsim.collectives.algorithm import Algorithm, Costs, RankLayout
from dpsim.collectives.schedule import Chunking, Phase, Schedule, fixed


def compile_scatter(layout: RankLayout) -> Schedule:
    """Compile blocks of ..., 4, 2, 1 chunks down the tree, the largest subtree first."""
    ranks = layout.ranks
    phases = tuple(_blocks(ranks, level) for level in reversed(binomial.levels(ranks)))
    return Schedule("scatter", "tree", ranks, ranks, phases)


def _blocks(ranks: int, level: int) -> Phase:
    child = binomial.children(ranks, level)
    chunks = binomial.subtree(ranks, level)
    # A subtree is consecutive ranks, and so are their chunks, beginning with the child's own.
    return Phase(child - 2**level, fixed(child), fixed(child), reduce=False, count=chunks)


def exact_time(layout: RankLayout, chunking: Chunking, costs: Costs) -> float:
    """Seconds: the sum over levels of o + alpha + B_k beta."""
    ranks = layout.ranks
    levels = len(binomial.levels(ranks))
    # The root sends at a level chunks 2^k to 2^(k+1) - 1, as far as there are ranks.
    ends = np.minimum(2 ** np.arange(levels + 1, dtype=np.int64), ranks)
    blocks = chunking.nbytes(ends[:-1], np.diff(ends))
    return float(sum(costs.message(float(block)) for block in blocks))


SCATTER = Algorithm(
    "scatter",
    "tree",
    "every rank's chunk handed down a binomial tree",
    "Thakur, Rabenseifner and Gropp, IJHPCA 19, 2005",
    compile_scatter,
    exact_time,
)
