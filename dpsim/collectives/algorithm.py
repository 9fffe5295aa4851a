"""What an algorithm is: a compiler from a layout of ranks to a `Schedule`, and its exact cost.

The exact time holds on a uniform, non-blocking, full-duplex switch when all ranks start together;
it is the oracle that the executors are tested against. An algorithm whose function is exact for
some layouts and sizes only says which; for the others it is an upper bound.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

from dpsim.base.errors import DpsimError
from dpsim.collectives.schedule import Chunking, Schedule


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost of a message, by the Hockney model with LogP's serial overhead.

    ``overhead`` s of its sender, ``alpha`` s on its way, ``beta`` s/byte; ``gamma`` s/byte to
    reduce it. Sources: R. Hockney, Parallel Computing 20, 1994; Culler et al., PPoPP 1993.
    """

    alpha: float
    beta: float
    gamma: float = 0.0
    overhead: float = 0.0

    def message(self, nbytes: float) -> float:
        """Seconds for one message alone."""
        return self.overhead + self.alpha + nbytes * self.beta


@dataclass(frozen=True, slots=True)
class RankLayout:
    """``ranks`` ranks, numbered node by node, ``per_node`` in each.

    ``per_node`` is None where nodes hold unequal numbers of them.
    """

    ranks: int
    per_node: int | None = 1

    def groups_of(self, algorithm: str) -> int:
        """Ranks per node.

        Raises DpsimError naming ``algorithm`` where nodes are unequal or do not come out even.
        """
        if self.per_node is None:
            raise DpsimError(
                f"{algorithm} must have equally many GPUs on every node, but got a mixed cluster"
            )
        if self.per_node < 1 or self.ranks % self.per_node:
            raise DpsimError(
                f"{algorithm} must have ranks that fill whole nodes of {self.per_node}, but got "
                f"{self.ranks} ranks"
            )
        return self.per_node


def always_exact(layout: RankLayout, chunking: Chunking, costs: Costs) -> bool:
    """Whether the exact time holds for this layout, size and these costs: yes."""
    return True


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One way to carry out one collective operation, for any number of ranks from 1 up.

    ``exact_time`` is exact where ``exact_for`` holds, and an upper bound elsewhere.
    """

    operation: str
    name: str
    description: str
    source: str
    compile: Callable[[RankLayout], Schedule]
    exact_time: Callable[[RankLayout, Chunking, Costs], float]
    exact_for: Callable[[RankLayout, Chunking, Costs], bool] = always_exact

    def schedule(self, ranks: int, per_node: int | None = 1) -> Schedule:
        """The schedule for ``ranks`` ranks, ``per_node`` on each node, compiled once and kept.

        Raises DpsimError where the algorithm has none for them.
        """
        return _compiled(self, RankLayout(ranks, per_node))


# Kept: a study asks for the same few layouts again and again.
@lru_cache(maxsize=64)
def _compiled(algorithm: Algorithm, layout: RankLayout) -> Schedule:
    assert layout.ranks >= 1, f"a collective has at least 1 rank, but got {layout.ranks}"
    return algorithm.compile(layout)
