"""The definition of an algorithm, and a registry by operation and name.

An algorithm is a compiler from a layout of ranks to a `Schedule`, and its exact cost. A new
all-reduce is a file in `dpsim.collectives.all_reduces`; one for another operation is a file, and a
line here.

The exact time holds on a uniform, non-blocking, full-duplex switch when all ranks start together;
it is the oracle that the executors are tested against. If it is exact only for some layouts and
sizes, the algorithm states which; for the others it is an upper bound.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from pkgutil import iter_modules, resolve_name

from dpsim.base.errors import DpsimError
from dpsim.base.registry import Registry
from dpsim.collectives.operations import OPERATIONS
from dpsim.collectives.schedule import Chunking, Schedule


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost of a message, by the Hockney model with LogP's serial overhead.

    ``overhead`` s at its sender, ``alpha`` s in transit, ``beta`` s/byte; ``gamma`` s/byte to
    reduce it. Sources: R. Hockney, Parallel Computing 20, 1994; Culler et al., PPoPP 1993.
    """

    alpha: float
    beta: float
    gamma: float = 0.0
    overhead: float = 0.0

    def message(self, nbytes: float) -> float:
        """Return the seconds for one message alone."""
        return self.overhead + self.alpha + nbytes * self.beta


@dataclass(frozen=True, slots=True)
class RankLayout:
    """``ranks`` ranks, numbered node by node, ``per_node`` in each.

    ``per_node`` is None if nodes have different numbers of ranks. ``grid``: if nodes of one rank
    form a grid, its ranks in each dimension, numbered along the last one first.
    """

    ranks: int
    per_node: int | None = 1
    grid: tuple[int, ...] | None = None

    def groups_of(self, algorithm: str) -> int:
        """Return the ranks per node.

        Raises DpsimError naming ``algorithm`` if nodes are unequal or not filled.
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
    """Return True: the exact time holds for all layouts, sizes and costs."""
    return True


@dataclass(frozen=True, slots=True)
class Algorithm:
    """One algorithm for a collective operation, for any number of ranks from 1 up.

    For one rank ``compile`` returns a schedule without phases. ``exact_time`` is exact if
    ``exact_for`` is true, and otherwise an upper bound. ``depends_on_nodes``: whether the schedule
    depends on how ranks fill nodes.
    """

    operation: str
    name: str
    description: str
    source: str
    compile: Callable[[RankLayout], Schedule]
    exact_time: Callable[[RankLayout, Chunking, Costs], float]
    exact_for: Callable[[RankLayout, Chunking, Costs], bool] = always_exact
    depends_on_nodes: bool = False

    def schedule(
        self, ranks: int, per_node: int | None = 1, grid: tuple[int, ...] | None = None
    ) -> Schedule:
        """Return the schedule for ranks laid out as in `RankLayout`, compiled once and cached.

        Raises DpsimError if the algorithm does not support them.
        """
        return _compiled(self, RankLayout(ranks, per_node, grid))


# Cached, because a study repeats the same few layouts.
@lru_cache(maxsize=64)
def _compiled(algorithm: Algorithm, layout: RankLayout) -> Schedule:
    assert layout.ranks >= 1, f"a collective has at least 1 rank, but got {layout.ranks}"
    return algorithm.compile(layout)


# The all-reduces in the order in which they are listed; a new one follows by its name.
_ORDER = (
    "all-to-all",
    "master-worker",
    "tree",
    "pipelined-tree",
    "double-binary-tree",
    "round-robin",
    "butterfly",
    "halving-doubling",
    "ring",
    "hierarchical",
    "torus-2d",
    "swing",
)


def _all_reduces() -> dict[str, str]:
    """Return the location of each all-reduce by its name, which is the name of its file."""
    folder = str(Path(__file__).with_name("all_reduces"))
    found = sorted(module.name.replace("_", "-") for module in iter_modules([folder]))
    named = dict.fromkeys((*_ORDER, *found))
    return {name: f"all_reduces.{name.replace('-', '_')}:ALGORITHM" for name in named}


# The location of each algorithm as "file:NAME" in this package; files are imported on demand.
_LOCATIONS = {
    "all-reduce": _all_reduces(),
    "reduce": {"tree": "reduce:REDUCE"},
    "broadcast": {"tree": "broadcast:BROADCAST"},
    "gather": {"tree": "gather:GATHER"},
    "scatter": {"tree": "scatter:SCATTER"},
    "reduce-scatter": {"ring": "reduce_scatter:REDUCE_SCATTER"},
    "all-gather": {"ring": "all_gather:ALL_GATHER"},
    "all-to-all": {"pairwise": "all_to_all_personalised:ALL_TO_ALL_PERSONALISED"},
    "barrier": {"dissemination": "barrier:BARRIER"},
}

# Algorithms with an optional degree, as in butterfly:4, and the function that makes them.
_WITH_DEGREE = {"butterfly": "all_reduces.butterfly:with_degree"}

_BY_OPERATION: dict[str, Registry[str]] = {
    operation: Registry(f"{operation} algorithm", locations)
    for operation, locations in _LOCATIONS.items()
}

# All-reduces without a schedule.
IN_NETWORK = "in-network"
AUTO = "auto"
NOT_SCHEDULES = (IN_NETWORK, AUTO)

ALL_REDUCES: Registry[str] = Registry(
    "all-reduce algorithm", {name: name for name in (*_BY_OPERATION["all-reduce"], *NOT_SCHEDULES)}
)


def algorithm_names(operation: str = "all-reduce") -> tuple[str, ...]:
    """Return the names of the algorithms for ``operation``.

    Raises UnknownNameError for an unknown operation.
    """
    return tuple(_BY_OPERATION[OPERATIONS[operation].name])


def algorithm(name: str, operation: str = "all-reduce") -> Algorithm:
    """Return the algorithm ``name`` for ``operation``; ``butterfly:4`` is the one of degree 4.

    Raises UnknownNameError with the nearest known name, DpsimError for an invalid degree.
    """
    known = _BY_OPERATION[OPERATIONS[operation].name]
    base, colon, degree = name.partition(":")
    if not (colon and base in known and base in _WITH_DEGREE):
        found: Algorithm = resolve_name(f"dpsim.collectives.{known[name]}")
        return found
    if not re.fullmatch("[0-9]{1,9}", degree):
        raise DpsimError(f"{base} must have a whole number as degree ({base}:4), but got {name!r}")
    make = resolve_name(f"dpsim.collectives.{_WITH_DEGREE[base]}")
    of_degree: Algorithm = make(int(degree))
    return of_degree


def all_reduce(name: str) -> str:
    """Return ``name`` if it is an all-reduce. Raises what `algorithm` does."""
    if name.partition(":")[0] not in _WITH_DEGREE:
        return ALL_REDUCES[name]
    algorithm(name)
    return name
