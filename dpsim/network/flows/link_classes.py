"""Links that every flow so far has crossed alike count as one.

Those of a chain, or the servers that a bundle goes to.

They carry the same flows in the same shares, so only the slowest of them can ever hold a flow up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray

_PRIME = np.uint64(2**61 - 1)
_SMALL = 256  # links: routes of no more are remembered
_REMEMBERED = 20_000  # routes


class LinkClasses:
    """Which class each link is in; class 0 are the links that nothing has crossed yet, and no link
    (-1).

    ``capacity`` is B/s of each class: its slowest link's, and without limit for class 0.
    """

    def __init__(self, capacities: FloatArray) -> None:
        self.capacities = np.array(capacities, dtype=np.float64)
        self.of = np.zeros(len(capacities) + 1, dtype=np.int64)  # the last is for -1, no link
        self.capacity = np.array([np.inf])
        self.any_cut = False
        self._size = np.zeros(1, dtype=np.int64)
        self._first = np.array([-1])  # a link of each class, to stand for it
        self._routes: dict[tuple[tuple[int, ...], bytes, bytes], tuple[IntArray, FloatArray]] = {}

    def set_capacity(self, links: IntArray, rate: FloatArray | float) -> IntArray:
        """Change capacities (B/s) of links; returns their classes."""
        self.capacities[links] = rate
        classes = np.unique(self.of[links])
        self._measure(classes)
        return classes

    def crossed(
        self, links: IntArray, share: FloatArray, split: Callable[[IntArray], None]
    ) -> tuple[IntArray, FloatArray]:
        """The classes that routes cross and the share of each, both (hops, flows) and 0 where a
        route is shorter.

        ``links`` and ``share`` are (flows, hops). Classes whose links the routes do not cross alike
        are split first: ``split`` is told which new class the flows under way cross just as they
        cross an old one (0: none), once or more.
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
        classes = self.of[links]
        keep = (self._first[classes] == links) & (classes > 0)
        order = np.argsort(~keep, axis=1, kind="stable")[:, : keep.sum(axis=1).max(initial=1)]
        classes = np.take_along_axis(np.where(keep, classes, 0), order, axis=1)
        return classes.T, np.take_along_axis(np.where(keep, share, 0.0), order, axis=1).T

    def _split(self, links: IntArray, share: FloatArray) -> list[IntArray]:
        touched, mark = _marks(links, share, len(self.of))
        old = self.of[touched]
        order = np.lexsort((mark, old))
        touched, mark, old = touched[order], mark[order], old[order]
        new_class = np.diff(old, prepend=-1) != 0
        begins = new_class | (
            np.diff(mark, prepend=mark[:1]) != 0
        )  # where a part begins whose links stay together
        parent, first = old[begins], new_class[begins]
        whole = np.bincount(old, minlength=len(self._size)) == self._size
        stays = first & whole[parent] & (parent > 0)
        if stays.all():
            return []
        number = np.where(stays, parent, len(self.capacity) - 1 + np.cumsum(~stays))
        self._renumber(touched, number[np.cumsum(begins) - 1], np.append(parent, number))
        told = ~stays & (parent > 0)
        return list(_one_each(parent[told], number[told], len(self.capacity)))

    def _renumber(self, links: IntArray, classes: IntArray, changed: IntArray) -> None:
        self._routes.clear()
        self.of[links] = classes
        more = int(classes.max()) + 1 - len(self.capacity)
        self.capacity = np.append(self.capacity, np.empty(max(more, 0)))
        self._measure(np.unique(changed))

    def _measure(self, classes: IntArray) -> None:
        """Take down size, capacity and first link of classes anew."""
        count = len(self.capacity)
        self._size, self._first = (
            np.append(a, np.zeros(count - len(a), np.int64)) for a in (self._size, self._first)
        )
        among = np.zeros(count, dtype=bool)
        among[classes] = True
        among[0] = False
        members = np.flatnonzero(among[self.of])
        of = self.of[members]
        self._size[among] = np.bincount(of, minlength=count)[among]
        self._first[of[::-1]] = members[::-1]
        self.capacity[among] = np.inf
        np.minimum.at(self.capacity, of, self.capacities[members])
        self.any_cut = bool((self.capacity == 0).any())


def _marks(links: IntArray, share: FloatArray, count: int) -> tuple[IntArray, NDArray[np.uint64]]:
    """The links on the routes, and a mark of each.

    A sum over its flows of a random number times its share.

    Links that the same flows cross in the same shares have the same mark. Others have not, but for
    a chance of about 2^-60.
    """
    marks = np.zeros(count, dtype=np.uint64)
    np.add.at(marks, links, _random(len(links)) * (share.view(np.uint64) % _PRIME))
    there = np.zeros(count, dtype=bool)
    there[links] = True
    touched = np.flatnonzero(there[:-1])
    return touched, marks[touched]


@lru_cache(maxsize=4)
def _random(count: int) -> NDArray[np.uint64]:
    return np.random.default_rng(0).integers(2**63, size=(count, 1), dtype=np.uint64)


def _one_each(parent: IntArray, child: IntArray, count: int) -> Iterator[IntArray]:
    """By class its child, or 0; again for the second children, and so on.

    Equal parents stand together.
    """
    while len(parent):
        turn = np.diff(parent, prepend=-1) != 0
        child_of = np.zeros(count, dtype=np.int64)
        child_of[parent[turn]] = child[turn]
        yield child_of
        parent, child = parent[~turn], child[~turn]
