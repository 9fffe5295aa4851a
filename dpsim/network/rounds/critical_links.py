"""All rounds of a ring at once, where its slowest links are spread along it.

Between the slowest links the others only keep pace. A round takes rank i of a ring from r_i to
o + g + max(r_i + max(t_i, t_{i-1}), r_{i+1} + t_i, r_{i-1} + t_{i-1}), with t_i the seconds of its
message to rank i+1: a linear map in max-plus algebra. After R rounds rank i is at the most of r_j
plus the seconds of a walk of R turns from j to i, which in a turn crosses link e in t_e, or stays
at a rank for the slower of its two links. Against R (o + g + T), T of the slowest, or critical,
links, it costs nothing to stay at an end of one, and T - t_e to cross link e. So the walk that
counts goes the cheapest way to a critical link, stays there, and goes on to i. Source: Baccelli,
Cohen, Olsder and Quadrat, Synchronization and Linearity, 1992, section 3.7 (powers of a matrix by
its critical graph).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray

_ROUNDING = 1e-13  # of the slowest: links that differ by less count as equal

# Segments are laid out side by side, each as long as the longest: where that takes no more than so
# many times the ranks.
_PADDED = 4


@dataclass(frozen=True, eq=False)
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
        """The rings whose ranks stand in order at ``place`` (rings, ranks).

        ``seconds``, of the same shape, are those of a message to the next rank; ``paid`` (rings) is
        what a rank pays in a round. None where ``rounds`` are too few for this to be exact.
        """
        most = seconds.max(axis=1, keepdims=True)
        is_slower = seconds < most * (1 - _ROUNDING)
        lost = np.where(is_slower, most - seconds, 0.0)
        after = np.roll(lost == 0, 1, axis=1)  # whether a rank is the first after a critical link
        if len(np.unique(after.sum(axis=1))) > 1:
            return None  # rings with different numbers of critical links make no table

        # Turn each ring until a segment begins at its first place.
        ranks = seconds.shape[1]
        turned = (np.arange(ranks) + after.argmax(axis=1)[:, None]) % ranks
        place = np.take_along_axis(place, turned, axis=1)
        lost = np.take_along_axis(lost, turned, axis=1)
        after = np.take_along_axis(after, turned, axis=1)

        first = np.flatnonzero(after)
        length = np.diff(first, append=place.size)
        longest = int(length.max())
        if longest * len(length) > _PADDED * place.size:
            return None
        if not _enough(rounds, lost, first, longest):
            return None
        return cls._cut(place, lost, first, length, rounds * (most + paid[:, None]))

    @classmethod
    def _cut(
        cls, place: IntArray, lost: FloatArray, first: IntArray, length: IntArray, paced: FloatArray
    ) -> CriticalLinks:
        """Lay the segments side by side; ``first`` and ``length`` say where each is."""
        number = np.arange(length.max())[:, None]
        there = number < length
        index = np.where(there, first + number, first)

        before = np.cumsum(lost, axis=1) - lost  # from the ring's first place to each
        round_trip = lost.sum(axis=1, keepdims=True)
        begin = before.ravel()[first]
        end = (before + lost).ravel()[first + length - 1]
        here = before.ravel()[index]
        # Padding is infinitely far from both, and so counts in no maximum.
        behind = np.where(there, here - begin, np.inf)
        ahead = np.where(there, end - here, np.inf)
        return cls(
            place.ravel()[index],
            None if there.all() else there,
            _one_column_if_equal(behind),
            _one_column_if_equal(ahead),
            end.reshape(len(place), -1),
            round_trip,
            paced,
        )

    def finish(self, ready: FloatArray) -> FloatArray:
        """When each place is through that is there at ``ready`` (s)."""
        here = ready[self.place]
        # The latest that each segment tells the critical link behind it, and the one ahead of it:
        # both (rings, segments).
        back = (here - self.behind).max(axis=0).reshape(self.reach.shape)
        on = (here - self.ahead).max(axis=0).reshape(self.reach.shape)

        # A critical link hears its segment, and the one that begins behind it.
        # By slices: `numpy.roll` takes several times as long on few links.
        heard = np.maximum(on, np.concatenate((back[:, 1:], back[:, :1]), axis=1))
        after = self._heard_all_round(heard) + self.paced
        before = np.concatenate((after[:, -1:], after[:, :-1]), axis=1)
        through = np.maximum(before.ravel() - self.behind, after.ravel() - self.ahead)

        finished = ready.copy()
        if self.there is None:
            finished[self.place] = through
        else:
            finished[self.place[self.there]] = through[self.there]
        return finished

    @cached_property
    def _twice(self) -> FloatArray:
        """The reach of each critical link, and again one round trip further on."""
        return np.concatenate((self.reach, self.reach + self.around), axis=1)

    def _heard_all_round(self, heard: FloatArray) -> FloatArray:
        """The latest that each critical link hears of, from itself and all others, both ways round.

        Twice round the ring stands for its being closed; what a link hears from another is less by
        the difference of their reaches, so running maxima do for all pairs.
        """
        count, reach, twice = heard.shape[1], self.reach, self._twice
        # From e to a later f the loss is reach[f] - reach[e]: each link's part of it can be taken
        # before the maximum, and the other's after it.
        again = np.concatenate((heard, heard), axis=1)
        latest_behind = np.maximum.accumulate(again + twice, axis=1)
        onwards = latest_behind[:, count:] - twice[:, count:]
        latest_ahead = np.maximum.accumulate((again - twice)[:, ::-1], axis=1)[:, ::-1]
        backwards = latest_ahead[:, :count] + reach
        return np.maximum(onwards, backwards)


def _one_column_if_equal(lost: FloatArray) -> FloatArray:
    """One column, where all are equal: as in a ring through nodes of one kind."""
    first = lost[:, :1]
    return first.copy() if (lost == first).all() else lost


def _enough(rounds: int, lost: FloatArray, first: IntArray, longest: int) -> bool:
    """Whether ``rounds`` are enough for every walk that counts.

    The walk that counts has so few turns, and one that comes by no critical link would lose more. A
    walk comes by one on its way, of at most the ring's ranks less one, or goes out of its segment
    and back. One that stays in a segment loses at least the least loss there in each turn, and to
    go to an end and back would lose twice the segment's at most.
    """
    if rounds < max(lost.shape[1] - 1, 2 * longest):
        return False
    # A walk of many turns away from critical links must lose more than any detour to one costs.
    least = np.min(lost, initial=np.inf, where=lost > 0)
    most = np.add.reduceat(lost.ravel(), first).max()
    return bool(most == 0 or rounds * least >= 2 * most)
