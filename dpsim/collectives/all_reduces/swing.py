"""Swing all-reduce.

Recursive halving and doubling with partners that swing from side to side and so stay near on a ring
or torus.

In step k rank r exchanges with r + rho(k) if it is even and r - rho(k) if it is odd, rho(k) = (1 -
(-2)^(k+1)) / 3 = 1, -1, 3, -5, 11, ..., modulo the number of ranks, a power of two: on a ring the
distances are about a third shorter in total than 1, 2, 4, 8, ... Exact: as for halving-doubling; if
the number of ranks is not a power of two, surplus ranks fold in before and out after, as there.
Source: De Sensi, Bonato, Saam and Hoefler, "Swing: short-cutting rings for higher bandwidth
allreduce", NSDI 2024.
"""

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.collectives import binomial
from dpsim.collectives.algorithm import Algorithm, RankLayout
from dpsim.collectives.all_reduces.halving_doubling import exact_time, halve_and_double
from dpsim.collectives.schedule import Schedule, ranks_array


def compile_swing(layout: RankLayout) -> Schedule:
    """Compile the fold, halving and doubling with the swinging partners, and the unfold."""
    chunks = binomial.power_of_two(layout.ranks)
    phases = halve_and_double(
        layout.ranks, [partners(chunks, step) for step in range(chunks.bit_length() - 1)]
    )
    return Schedule("all-reduce", "swing", layout.ranks, chunks, phases)


def partners(ranks: int, step: int) -> IntArray:
    """Return the partner of each of ``ranks`` ranks, a power of two, in ``step``."""
    # -2 is 1 modulo 3, and so is any power of it, so rho is a whole number.
    rank, rho = ranks_array(ranks), (1 - (-2) ** (step + 1)) // 3
    return np.asarray((rank + np.where(rank % 2 == 0, rho, -rho)) % ranks)


ALGORITHM = Algorithm(
    "all-reduce",
    "swing",
    "reduce-scatter by halving, all-gather by doubling, with partners that swing from side to side",
    "De Sensi, Bonato, Saam and Hoefler, NSDI 2024",
    compile_swing,
    exact_time,
)
