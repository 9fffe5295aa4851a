"""What an algorithm is: a compiler from a number of ranks to a `Schedule`, and one exact cost function.

The exact time holds on a uniform, non-blocking, full-duplex switch when all ranks start together; it is the oracle that the
executors are tested against.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from dpsim.collectives.schedule import Schedule, Split


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost of a message: ``overhead`` s of its sender, ``alpha`` s on its way, ``beta`` s/byte; ``gamma`` s/byte to reduce it.

    The Hockney model (R. Hockney, Parallel Computing 20, 1994) with LogP's serial overhead (Culler et al., PPoPP 1993).
    """

    alpha: float
    beta: float
    gamma: float = 0.0
    overhead: float = 0.0

    def message(self, nbytes: float) -> float:
        """Seconds for one message alone."""
        return self.overhead + self.alpha + nbytes * self.beta


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to carry out one collective operation, for any number of ranks from 1 up."""

    operation: str
    name: str
    description: str
    source: str
    compile: Callable[[int], Schedule]
    exact_time: Callable[[int, Split, Costs], float]

    def schedule(self, ranks: int) -> Schedule:
        """The schedule for ``ranks`` ranks, compiled once and kept."""
        return _compiled(self, ranks)


@lru_cache(maxsize=64)
def _compiled(algorithm: Algorithm, ranks: int) -> Schedule:
    assert ranks >= 1, f"a collective has at least 1 rank, but got {ranks}"
    return algorithm.compile(ranks)
