"""A table of links: some for each route, or for each hub of routes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Entries:
    """Links by route, or by hub: entries ``begin[i]`` to ``begin[i + 1]`` belong to number i.

    ``share`` is the rate that a flow uses on each link, per B/s of its own rate.
    """

    begin: IntArray
    link: IntArray
    share: FloatArray

    @property
    def row(self) -> IntArray:
        """The number of the route of each entry."""
        return np.repeat(np.arange(len(self.begin) - 1), np.diff(self.begin))

    @classmethod
    def of(cls, row: IntArray, link: IntArray, share: FloatArray, rows: int) -> Entries:
        """Return entries given by the number of their route, in ascending order."""
        return cls(np.searchsorted(row, np.arange(rows + 1)), link, share)

    def at(self, number: int) -> slice:
        """Return the slice of the entries of route ``number``."""
        return slice(self.begin[number], self.begin[number + 1])

    def kept(self, keep: BoolArray) -> Entries:
        """Return the entries selected by ``keep``."""
        row = self.row[keep]
        return Entries.of(row, self.link[keep], self.share[keep], len(self.begin) - 1)

    def take(self, rows: IntArray) -> Entries:
        """Return the entries of some routes, renumbered in the order of ``rows``."""
        begin, at = self.places(rows)
        return Entries(begin, self.link[at], self.share[at])

    def places(self, rows: IntArray) -> tuple[IntArray, IntArray]:
        """Return where the entries of each of ``rows`` begin in `take`, and their indices here."""
        count = np.diff(self.begin)[rows]
        begin = np.append(0, np.cumsum(count))
        # The entries' numbers in the new table, moved to where their row begins here.
        return begin, np.arange(begin[-1]) + np.repeat(self.begin[rows] - begin[:-1], count)
