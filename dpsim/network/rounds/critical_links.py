"""All rounds of a ring at once, where its slowest links are spread along it.

Between them the others only keep pace.

A round takes rank i of a ring from r_i to o + g + max(r_i + max(t_i, t_{i-1}), r_{i+1} + t_i,
r_{i-1} + t_{i-1}), with t_i the seconds of its message to rank i+1: a linear map in max-plus
algebra. After R rounds rank i is at the most of r_j plus the seconds of a walk of R turns from j to
i, which in a turn crosses link e in t_e, or stays at a rank for the slower of its two links.
Against R (o + g + T), T of the slowest, or critical, links, it costs nothing to stay at an end of
one, and T - t_e to cross link e. So the walk that counts goes the cheapest way to a critical link,
stays there, and goes on to i. Source: Baccelli, Cohen, Olsder and Quadrat, Synchronization and
Linearity, 1992, section 3.7 (powers of a matrix by its critical graph).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray

_ROUNDING = 1e-13  # of the slowest: links that differ by less count as equal
# Times the ranks: segments are laid out side by side, as long as the longest, where that takes no
# more.
_PADDED = 4


@dataclass(frozen=True, slots=True, eq=False)
class CriticalLinks:
    """Equal rings cut at their critical links into segments, which lie side by side.

    ``place`` (longest, segments) is who stands where, ``there`` which of these are ranks and not
    padding (all, if None). ``behind`` and ``ahead`` (s) are what is lost between each and the
    critical link before its segment and the one after it; ``reach`` (rings, segments) is what is
    lost from the first critical link to the one after each segment, ``around`` (rings, 1) once
    round. ``paced`` (rings, 1) is what all rounds take on a critical link.
    """

    place: IntArray
    there: NDArray[np.bool_] | None
    behind: FloatArray
    ahead: FloatArray
    reach: FloatArray
    around: FloatArray
    paced: FloatArray

    @classmethod
    def of(
        cls, place: IntArray, seconds: FloatArray, paid: FloatArray, rounds: int
    ) -> CriticalLinks | None:
        """The rings whose ranks stand in order at ``place`` (rings, ranks); None where ``rounds``
        are too few for this to be exact.

        ``seconds``, of the same shape, are those of a message to the next rank; ``paid`` (rings) is
        what a rank pays in a round.
        """
        most = seconds.max(axis=1, keepdims=True)
        lost = np.where(seconds < most * (1 - _ROUNDING), most - seconds, 0.0)
        after = np.roll(lost == 0, 1, axis=1)  # whether a rank is the first after a critical link
        if len(np.unique(after.sum(axis=1))) > 1:
            return None
        turned = (np.arange(seconds.shape[1]) + after.argmax(axis=1)[:, None]) % seconds.shape[1]
        place, lost, after = (
            np.take_along_axis(values, turned, axis=1) for values in (place, lost, after)
        )
        first = np.flatnonzero(after)
        length = np.diff(first, append=place.size)
        if length.max() * len(length) > _PADDED * place.size or not _enough(
            rounds, lost, first, int(length.max())
        ):
            return None
        return cls._cut(place, lost, first, length, rounds * (most + paid[:, None]))

    @classmethod
    def _cut(
        cls, place: IntArray, lost: FloatArray, first: IntArray, length: IntArray, paced: FloatArray
    ) -> CriticalLinks:
        number = np.arange(length.max())[:, None]
        there = number < length
        index = np.where(there, first + number, first)
        before = np.cumsum(lost, axis=1) - lost
        reach = np.append(before, lost.sum(axis=1, keepdims=True), axis=1)
        begin = before.ravel()[first]
        end = (before + lost).ravel()[first + length - 1]
        behind = np.where(there, before.ravel()[index] - begin, np.inf)
        ahead = np.where(there, end - before.ravel()[index], np.inf)
        return cls(
            place.ravel()[index],
            None if there.all() else there,
            _once(behind),
            _once(ahead),
            end.reshape(len(place), -1),
            reach[:, -1:],
            paced,
        )

    def finish(self, ready: FloatArray) -> FloatArray:
        """When each place is through that is there at ``ready`` (s)."""
        here = ready[self.place]
        back, on = (
            (here - lost).max(axis=0).reshape(self.reach.shape)
            for lost in (self.behind, self.ahead)
        )
        after = self._heard(np.maximum(on, np.roll(back, -1, axis=1))) + self.paced
        before = np.roll(after, 1, axis=1)
        through = np.maximum(before.ravel() - self.behind, after.ravel() - self.ahead)
        finished = ready.copy()
        if self.there is None:
            finished[self.place] = through
        else:
            finished[self.place[self.there]] = through[self.there]
        return finished

    def _heard(self, links: FloatArray) -> FloatArray:
        """The latest that each critical link hears of, from itself and from all others, both ways
        round.
        """
        count, reach = links.shape[1], self.reach
        twice = np.append(reach, reach + self.around, axis=1)
        again = np.append(links, links, axis=1)
        onwards = np.maximum.accumulate(again + twice, axis=1)[:, count:] - twice[:, count:]
        backwards = (
            np.maximum.accumulate((again - twice)[:, ::-1], axis=1)[:, ::-1][:, :count] + reach
        )
        return np.maximum(onwards, backwards)


def _once(lost: FloatArray) -> FloatArray:
    """One column, where all are equal: as in a ring through nodes of one kind."""
    return lost[:, :1].copy() if (lost == lost[:, :1]).all() else lost


def _enough(rounds: int, lost: FloatArray, first: IntArray, longest: int) -> bool:
    """Whether every walk that counts has so few turns, and one that comes by no critical link would
    lose more.

    A walk comes by one on its way, of at most the ring's ranks less one, or goes out of its segment
    and back. One that stays in a segment loses at least the least loss there in each turn, and to
    go to an end and back would lose twice the segment's at most.
    """
    if rounds < max(lost.shape[1] - 1, 2 * longest):
        return False
    least = np.min(lost, initial=np.inf, where=lost > 0)
    most = np.add.reduceat(lost.ravel(), first).max()
    return bool(rounds * least >= 2 * most) if most else True
