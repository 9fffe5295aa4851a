"""Gossip: each rank averages its vector with those of a few neighbours.

A graph is a cycle of rounds, each a schedule of one round. ``ring``: both neighbours. ``torus``:
the four neighbours in a grid as square as possible. ``exponential``: in turn t only rank + 2^t
receives from a rank, so that with 2^k ranks all are equal after k turns. ``random-pairs``: a new
random matching each turn, which leaves out one rank if their number is odd. Sources: Lian et al.,
"Can decentralized algorithms outperform centralized algorithms?", NeurIPS 2017 (ring); Assran et
al., "Stochastic gradient push", ICML 2019 (exponential); Boyd et al., "Randomized gossip
algorithms", IEEE Trans. Information Theory 52, 2006 (random pairs).
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import IntArray, near_square
from dpsim.base.errors import UnknownNameError
from dpsim.collectives.schedule import Phase, Schedule, fixed, ranks_array

GOSSIP_GRAPHS = ("ring", "exponential", "random-pairs", "torus")
_MATCHINGS = 64  # turns until the random matchings repeat

Edges = tuple[IntArray, IntArray]


# Cached, because a run asks for the same ones in each turn.
@lru_cache(maxsize=4)
def gossip_turns(graph: str, ranks: int, seed: int = 0) -> tuple[Schedule, ...]:
    """Return the exchanges of successive turns, which then repeat.

    Raises UnknownNameError for an unknown graph.
    """
    if graph not in GOSSIP_GRAPHS:
        raise UnknownNameError("gossip graph", graph, GOSSIP_GRAPHS)
    if ranks == 1:
        # No neighbours, but there must be one turn to repeat.
        return (_exchange(graph, ranks, (ranks_array(0), ranks_array(0))),)
    return tuple(_exchange(graph, ranks, edges) for edges in _turns(graph, ranks, seed))


def _turns(graph: str, ranks: int, seed: int) -> list[Edges]:
    if graph == "ring":
        return [_offsets(ranks, (1, -1))]
    if graph == "torus":
        return [_grid(ranks)]
    if graph == "exponential":
        return [_offsets(ranks, (2**turn,)) for turn in range((ranks - 1).bit_length())]
    # Each turn has its own stream, so a matching does not depend on earlier ones.
    return [_matching(ranks, np.random.default_rng([seed, turn])) for turn in range(_MATCHINGS)]


def mixing_matrix(schedule: Schedule) -> NDArray[np.float64]:
    """Return W (ranks, ranks).

    After the exchange rank i holds the sum over j of W[i, j] times what j held; rows add up to 1.
    """
    # A rank gives its own vector and each received one the same weight.
    weights = np.eye(schedule.ranks)
    for phase in schedule.phases:
        weights[phase.destination.at(0), phase.source] = 1.0
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


def most_neighbours(schedule: Schedule) -> int:
    """Return the largest number of others from which a rank receives."""
    most = 0
    for phase in schedule.phases:
        received = np.bincount(phase.destination.at(0))
        most = max(most, int(received.max(initial=0)))
    return most


def _exchange(graph: str, ranks: int, edges: Edges) -> Schedule:
    source, destination = edges
    phase = Phase(source, fixed(destination), fixed(np.zeros_like(source)), reduce=True)
    return Schedule("gossip", graph, ranks, 1, (phase,) if len(source) else ())


def _offsets(ranks: int, offsets: tuple[int, ...]) -> Edges:
    rank = ranks_array(ranks)
    partners = [(rank + offset) % ranks for offset in offsets]
    return _distinct(np.tile(rank, len(offsets)), np.concatenate(partners), ranks)


def _grid(ranks: int) -> Edges:
    """Return the neighbours in a torus whose sides are the nearest factors of ``ranks``."""
    rows, columns = near_square(ranks)
    row, column = np.divmod(ranks_array(ranks), columns)
    right, left = (column + 1) % columns, (column - 1) % columns
    below, above = (row + 1) % rows, (row - 1) % rows
    neighbours = [
        row * columns + right,
        row * columns + left,
        below * columns + column,
        above * columns + column,
    ]
    source = np.tile(ranks_array(ranks), len(neighbours))
    return _distinct(source, np.concatenate(neighbours), ranks)


def _matching(ranks: int, generator: np.random.Generator) -> Edges:
    """Return random pairs: neighbours in a random order of the ranks."""
    # With an odd number, the last in the order has no partner.
    order = generator.permutation(ranks)[: ranks // 2 * 2].astype(np.int64)
    one, other = order[::2], order[1::2]
    return np.concatenate([one, other]), np.concatenate([other, one])


def _distinct(source: IntArray, destination: IntArray, ranks: int) -> Edges:
    """Return each edge once, without edges from a rank to itself, which small graphs may have."""
    # An edge as one number, so that `unique` finds each once.
    edges = np.unique(source * ranks + destination)
    source, destination = np.divmod(edges, ranks)
    apart = source != destination
    return source[apart], destination[apart]
