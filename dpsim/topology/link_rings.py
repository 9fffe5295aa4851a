"""Rings over the direct links between GPUs, counted as by NCCL's search.

A ring visits every GPU once, returns, and takes one direction of each link that it crosses. Rings
that can run concurrently are therefore edge-disjoint directed Hamiltonian cycles of the multigraph
of links. NCCL also tries channels of half the rate (search.cc): four fully connected GPUs form two
rings, but six of half a link. If the links form no ring, GPUs without a common link communicate
through a third one, as in NCCL (PATH_NVB) and with AMD's links.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise
from math import gcd

import numpy as np

from dpsim.hardware import Link

Leg = tuple[int, ...]
"""The GPUs from one GPU of a ring to the next, both included."""
Ring = tuple[Leg, ...]
_Counts = tuple[tuple[int, ...], ...]

# Limit of one search; searches on known nodes take up to 8,000. Beyond it, the rings found so far
# are used.
_MOST_STEPS = 20_000
_MOST_CUT = 16  # GPUs up to which every cut is tested


@dataclass(frozen=True, slots=True)
class GpuRings:
    """``rings`` over GPUs 0 .. n-1, each of which carries ``each`` B/s in one direction."""

    rings: tuple[Ring, ...]
    each: float

    @property
    def rate(self) -> float:
        """Total B/s of all rings; 0 if the links form none."""
        return len(self.rings) * self.each


def gpu_rings(gpus: Sequence[str], edges: Iterable[tuple[str, str, Link, int]]) -> GpuRings:
    """Return the rings over ``gpus`` by those of ``edges`` that join two of them.

    Rates are nominal. GPU i of a ring is ``gpus[i]``.
    """
    place = {gpu: index for index, gpu in enumerate(gpus)}
    joined = [
        (place[a], place[b], link.rate.value, count)
        for a, b, link, count in edges
        if a in place and b in place
    ]
    if not joined:
        return GpuRings((), 0.0)
    slowest = min(rate for _, _, rate, _ in joined)
    counts = [[0] * len(gpus) for _ in gpus]
    for a, b, rate, count in joined:
        links = int(rate * count / slowest)
        counts[a][b] += links
        counts[b][a] += links
    # Links that occur only in bundles are searched as bundles.
    bundle = gcd(*(count for row in counts for count in row))
    rings, parts = _most_rings(tuple(tuple(count // bundle for count in row) for row in counts))
    return GpuRings(rings, slowest * bundle / parts)


@lru_cache(maxsize=256)
def _most_rings(counts: _Counts) -> tuple[tuple[Ring, ...], int]:
    """Return the most rings over links with these ``counts``, and the rings per link."""
    limit = _narrowest_cut(counts)
    halves = tuple(tuple(2 * count for count in row) for row in counts)
    for forwards in (False, True):
        whole = _Search(counts, forwards=forwards).most(limit)
        half = _Search(halves, forwards=forwards).most(2 * limit) if len(whole) < limit else ()
        if len(half) > 2 * len(whole):
            return half, 2
        if whole:
            return whole, 1
    return (), 1


def _narrowest_cut(counts: _Counts) -> int:
    """Return the fewest links out of any subset of the GPUs; every ring needs one of them."""
    links = np.array(counts)
    gpus = len(links)
    if gpus > _MOST_CUT:
        return int(links.sum(axis=1).min())
    # (cuts, gpus): the side of each GPU; the last GPU is always on the same side.
    inside = np.arange(1, 2 ** (gpus - 1))[:, None] >> np.arange(gpus) & 1
    return int(((inside @ links) * (1 - inside)).sum(axis=1).min())


class _OutOfSteps(Exception):  # noqa: N818  # it ends a search and is not an error
    """A search has used all its steps."""


class _Search:
    """A depth-first search for concurrent rings; with ``forwards`` also through a third GPU."""

    def __init__(self, counts: _Counts, *, forwards: bool) -> None:
        self._counts = counts
        self._free = [list(row) for row in counts]
        self._places = range(len(counts))
        self._forwards = forwards
        self._steps = 0

    def most(self, limit: int) -> tuple[Ring, ...]:
        """Return as many rings as fit, up to ``limit``, or as the step limit allows."""
        best: tuple[Ring, ...] = ()
        try:
            while len(best) < limit and (more := self._rings(len(best) + 1)) is not None:
                best = more
        except _OutOfSteps:
            pass
        return best

    def _rings(self, wanted: int) -> tuple[Ring, ...] | None:
        """Return ``wanted`` rings in their `_order`, or None if they do not fit."""
        self._free = [list(row) for row in self._counts]
        if not self._has_links_for(wanted):
            return None
        # An iterator occupies its last ring's links until it is asked for the next one.
        searches, taken = [self._rings_from((), frozenset({0}))], list[Ring]()
        while searches:
            del taken[len(searches) - 1 :]
            ring = next(searches[-1], None)
            if ring is None:
                searches.pop()
            # With a fixed order, each set of rings is tried once.
            elif (not taken or _order(ring) >= _order(taken[-1])) and self._has_links_for(
                wanted - len(searches)
            ):
                taken.append(ring)
                if len(taken) == wanted:
                    return tuple(taken)
                searches.append(self._rings_from((), frozenset({0})))
        return None

    def _has_links_for(self, rings: int) -> bool:
        """Return whether every GPU still has enough links out and in for that many rings."""
        out = min(map(sum, self._free))
        into = min(map(sum, zip(*self._free, strict=True)))
        return min(out, into) >= rings

    def _rings_from(self, legs: Ring, visited: frozenset[int]) -> Iterator[Ring]:
        """Yield the rings that begin with ``legs``, in their `_order`."""
        self._steps += 1
        if self._steps > _MOST_STEPS:
            raise _OutOfSteps
        last = legs[-1][-1] if legs else 0
        gpus = len(self._places)
        closes = len(visited) == gpus
        # The nearest GPU ahead first: in a full mesh, rings of equal strides fit together.
        ahead = [(last + stride) % gpus for stride in range(1, gpus)]
        for target in (0,) if closes else [place for place in ahead if place not in visited]:
            for leg in self._legs(last, target):
                self._take(leg, 1)
                if closes:
                    yield (*legs, leg)
                else:
                    yield from self._rings_from((*legs, leg), visited | {target})
                self._take(leg, -1)

    def _legs(self, a: int, b: int) -> list[Leg]:
        """Return the free legs from ``a`` to ``b``."""
        if self._counts[a][b]:
            return [(a, b)] if self._free[a][b] else []
        if not self._forwards:
            return []
        return [(a, c, b) for c in self._places if self._free[a][c] and self._free[c][b]]

    def _take(self, leg: Leg, count: int) -> None:
        for a, b in pairwise(leg):
            self._free[a][b] -= count


def _order(ring: Ring) -> list[tuple[int, Leg]]:
    """Return a sort key for rings: the stride of each leg, then the leg."""
    return [((leg[-1] - leg[0]) % len(ring), leg) for leg in ring]
