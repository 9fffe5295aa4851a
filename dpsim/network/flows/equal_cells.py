"""Interchangeable parts of a reduced network, such as equal nodes.

A *cell* is a set of groups with the links that occur only in their own entries. Cells are of one
kind if their groups and links differ only in their numbers. Cells of one kind with equally many
flows under way have equal rates, so that one of them represents all (``filling.c``).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import GOLDEN, FloatArray, IntArray, mix_bits
from dpsim.network.flows.entries import Entries

# Most rounds of the search for a cell; a node's cell takes three, a whole network's many.
_ROUNDS = 16

_Marks = NDArray[np.uint64]


@dataclass(frozen=True, slots=True, eq=False)
class Cells:
    """Cell i has groups ``group_begin[i]`` to ``group_begin[i + 1]``; its links likewise.

    Cells of one ``kind`` have them in the same order.
    """

    group_begin: IntArray
    link_begin: IntArray
    kind: IntArray

    def of_group(self, groups: int) -> IntArray:
        """Return the cell of each of ``groups`` groups (-1: none)."""
        return np.searchsorted(self.group_begin, np.arange(groups), side="right") - 1


NO_CELLS = Cells(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.int64))


def cells_of(
    own: Entries, replaced: FloatArray, hub_of: IntArray, hub: Entries, capacity: FloatArray
) -> tuple[Cells, IntArray, IntArray]:
    """Return the cells, and the orders of groups and of links that make each cell a span.

    ``own``: the groups' entries. ``replaced``: the share of the hub's entry that each replaces.
    """
    links, groups = len(capacity), len(hub_of)
    of_link, of_group = _joined(own, links)
    link_mark = _mixed(capacity, _sums(hub.link, _mixed(hub.row, hub.share), links))
    edges = _mixed(link_mark[own.link], own.share, replaced)
    group_mark = _mixed(hub_of, _sums(own.row, edges, groups))

    names, cell = np.unique(np.append(of_link, of_group), return_inverse=True)
    of_link, of_group = cell[:links], cell[links:]
    at_link, at_group = np.lexsort((link_mark, of_link)), np.lexsort((group_mark, of_group))
    count = len(names)
    kind_of = _mixed(_sums(of_link, link_mark, count), _sums(of_group, group_mark, count))
    # If two links of a cell are equal, their counterparts in another cell are unknown.
    same = _with_repeated_mark(of_link[at_link], link_mark[at_link])
    kind_of[same] = _mixed(kind_of[same], same)
    cells = Cells(
        np.searchsorted(of_group[at_group], np.arange(count + 1)),
        np.searchsorted(of_link[at_link], np.arange(count + 1)),
        np.unique(kind_of, return_inverse=True)[1],
    )
    return cells, at_group, at_link


def _joined(own: Entries, links: int) -> tuple[IntArray, IntArray]:
    """Return a number for each link and each group, equal if own entries connect them."""
    row, groups = own.row, len(own.begin) - 1
    of_link, of_group = np.arange(links), links + np.arange(groups)
    for _ in range(_ROUNDS):
        before = of_link.copy()
        np.minimum.at(of_group, row, of_link[own.link])
        np.minimum.at(of_link, own.link, of_group[row])
        if (of_link == before).all():
            return of_link, of_group
    return np.zeros(links, np.int64), np.zeros(groups, np.int64)


def _with_repeated_mark(cell: IntArray, mark: _Marks) -> IntArray:
    """Return the cells in which a mark occurs twice; cells and marks ascend."""
    return np.unique(cell[1:][(np.diff(cell) == 0) & (mark[1:] == mark[:-1])])


def _sums(of: IntArray, marks: _Marks, count: int) -> _Marks:
    """Return the sums of ``marks`` by number ``of``, modulo 2^64, so that order does not matter."""
    sums = np.zeros(count, dtype=np.uint64)
    np.add.at(sums, of, marks)
    return sums


def _mixed(*columns: NDArray[np.generic]) -> _Marks:
    """Return a hash of each row of ``columns`` of 8 bytes.

    Unequal rows have equal hashes with a probability of about 2^-60.
    """
    mark = np.zeros(len(columns[0]), dtype=np.uint64)
    for column in columns:
        mark = mix_bits((mark ^ column.view(np.uint64)) + np.uint64(GOLDEN))
    return mark
