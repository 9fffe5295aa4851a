"""Classes of links that all flows so far have crossed in the same way.

Examples are the links of a chain, or those of the servers that a bundle goes to. The links of a
class carry the same flows in the same shares, so only the slowest of them can limit a flow. Classes
only get smaller: a new route that crosses some links of a class but not others splits the class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray

_PRIME = np.uint64(2**61 - 1)

# Workers send over the same routes step after step, so the results for small ones are cached: up
# to this many links in all routes of a call, and this many calls.
_SMALL = 256
_REMEMBERED = 20_000


class LinkClasses:
    """The class of each link.

    Class 0 contains the links that nothing has crossed yet, and "no link" (-1). ``capacity`` is the
    B/s of each class: its slowest link's, and infinite for class 0.
    """

    def __init__(self, capacities: FloatArray) -> None:
        self.capacities = np.array(capacities, dtype=np.float64)
        self.of = np.zeros(len(capacities) + 1, dtype=np.int64)  # the last is for -1, no link
        self.capacity = np.array([np.inf])
        self.any_cut = False
        self._size = np.zeros(1, dtype=np.int64)
        self._first = np.array([-1])  # a representative link of each class
        self._routes: dict[tuple[tuple[int, ...], bytes, bytes], tuple[IntArray, FloatArray]] = {}

    def copy(self) -> LinkClasses:
        """Return an independent copy."""
        other = LinkClasses(self.capacities)
        other.of, other.capacity, other.any_cut = self.of.copy(), self.capacity.copy(), self.any_cut
        other._size, other._first = self._size.copy(), self._first.copy()
        return other

    def set_capacity(self, links: IntArray, rate: FloatArray | float) -> IntArray:
        """Change capacities (B/s) of links; return their classes."""
        self.capacities[links] = rate
        classes = np.unique(self.of[links])
        self._measure(classes)
        return classes

    def crossed(
        self, links: IntArray, share: FloatArray, split: Callable[[IntArray], None]
    ) -> tuple[IntArray, FloatArray]:
        """Return the classes that routes cross and the share of each.

        Both are (hops, flows), padded with 0. ``links`` and ``share`` are (flows, hops). Classes
        whose links the routes do not cross in the same way are split first: ``split`` is called,
        once or more, with an array that gives for each class the new class that its flows now cross
        too (0: none).
        """
        if links.size > _SMALL:
            return self._crossed(links, share, split)
        route = links.shape, links.tobytes(), share.tobytes()
        if route not in self._routes:
            found = self._crossed(links, share, split)
            if len(self._routes) == _REMEMBERED:
                self._routes.clear()
            self._routes[route] = found
        return self._routes[route]

    def _crossed(
        self, links: IntArray, share: FloatArray, split: Callable[[IntArray], None]
    ) -> tuple[IntArray, FloatArray]:
        for child_of in self._split(links, share):
            split(child_of)

        # One link represents its class, so a route crosses each class once.
        classes = self.of[links]
        keep = (self._first[classes] == links) & (classes > 0)
        hops = keep.sum(axis=1).max(initial=1)
        order = np.argsort(~keep, axis=1, kind="stable")[:, :hops]
        kept_classes = np.take_along_axis(np.where(keep, classes, 0), order, axis=1)
        kept_share = np.take_along_axis(np.where(keep, share, 0.0), order, axis=1)
        return kept_classes.T, kept_share.T

    def _split(self, links: IntArray, share: FloatArray) -> list[IntArray]:
        """Split the classes whose links these routes do not cross in the same way.

        Links of one class with the same mark stay together as a part. Returns the arrays to pass to
        ``split`` of `crossed`.
        """
        touched, mark = _marks(links, share, len(self.of))
        old = self.of[touched]
        order = np.lexsort((mark, old))
        touched, mark, old = touched[order], mark[order], old[order]

        new_class = np.diff(old, prepend=-1) != 0
        new_mark = np.diff(mark, prepend=mark[:1]) != 0
        begins = new_class | new_mark
        parent = old[begins]

        # The first part of a class keeps its number if the routes crossed all of the class.
        first = new_class[begins]
        whole = np.bincount(old, minlength=len(self._size)) == self._size
        stays = first & whole[parent] & (parent > 0)
        if stays.all():
            return []

        fresh = len(self.capacity) - 1 + np.cumsum(~stays)
        number = np.where(stays, parent, fresh)
        part_of = np.cumsum(begins) - 1
        self._renumber(touched, number[part_of], np.append(parent, number))

        # No flow crosses class 0, so links that leave it need no report.
        is_reported = ~stays & (parent > 0)
        return list(_one_child_each(parent[is_reported], number[is_reported], len(self.capacity)))

    def _renumber(self, links: IntArray, classes: IntArray, changed: IntArray) -> None:
        self._routes.clear()  # they use the old numbers
        self.of[links] = classes
        more = int(classes.max()) + 1 - len(self.capacity)
        self.capacity = np.append(self.capacity, np.empty(max(more, 0)))
        self._measure(np.unique(changed))

    def _measure(self, classes: IntArray) -> None:
        """Compute size, capacity and first link of classes again."""
        count = len(self.capacity)
        more = np.zeros(count - len(self._size), np.int64)
        self._size = np.append(self._size, more)
        self._first = np.append(self._first, more)
        among = np.zeros(count, dtype=bool)
        among[classes] = True
        among[0] = False  # nothing crosses class 0, so it needs no limit
        members = np.flatnonzero(among[self.of])
        of = self.of[members]
        self._size[among] = np.bincount(of, minlength=count)[among]
        # Backwards, so that the first link of each class is written last.
        self._first[of[::-1]] = members[::-1]
        self.capacity[among] = np.inf
        np.minimum.at(self.capacity, of, self.capacities[members])
        self.any_cut = bool((self.capacity == 0).any())


def _marks(links: IntArray, share: FloatArray, count: int) -> tuple[IntArray, NDArray[np.uint64]]:
    """Return the links on the routes, and a mark of each.

    A link's mark is the sum over its flows of a random number times the flow's share. Links that
    the same flows cross in the same shares have the same mark; other links have different marks,
    with a failure probability of about 2^-60.
    """
    # In integers modulo 2^64, so that a sum does not depend on the order of its terms. A share is
    # represented by its bits modulo a prime, which are equal for equal shares.
    marks = np.zeros(count, dtype=np.uint64)
    np.add.at(marks, links, _random(len(links)) * (share.view(np.uint64) % _PRIME))
    is_crossed = np.zeros(count, dtype=bool)
    is_crossed[links] = True
    touched = np.flatnonzero(is_crossed[:-1])
    return touched, marks[touched]


@lru_cache(maxsize=4)
def _random(count: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0).integers(2**63, size=(count, 1), dtype=np.uint64)


def _one_child_each(parent: IntArray, child: IntArray, count: int) -> Iterator[IntArray]:
    """Yield each class's child, or 0; again for the second children, and so on.

    Equal parents must be adjacent.
    """
    while len(parent):
        first = np.diff(parent, prepend=-1) != 0
        child_of = np.zeros(count, dtype=np.int64)
        child_of[parent[first]] = child[first]
        yield child_of
        parent, child = parent[~first], child[~first]
