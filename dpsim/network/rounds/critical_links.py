"""All rounds of a ring at once, if its slowest links are spread along it.

Between the slowest links the other links only keep pace. A round takes rank i of a ring from r_i to
o + g + max(r_i + max(t_i, t_{i-1}), r_{i+1} + t_i, r_{i-1} + t_{i-1}), with t_i the seconds of its
message to rank i+1: a linear map in max-plus algebra. After R rounds rank i is at the maximum of
r_j plus the seconds of a walk of R turns from j to i, which in a turn crosses link e in t_e, or
stays at a rank for the slower of its two links. With T the seconds of the slowest, or critical,
links, a walk loses, relative to R (o + g + T), nothing in a turn at an end of a critical link, and
T - t_e in a turn that crosses link e. The optimal walk therefore takes the cheapest path to a
critical link, stays there, and continues to i. Source: Baccelli, Cohen, Olsder and Quadrat,
Synchronization and Linearity, 1992, section 3.7 (powers of a matrix by its critical graph).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import FloatArray, IntArray

_ROUNDING = 1e-13  # relative to the slowest: links that differ by less count as equal

# Segments are padded to the length of the longest, if that takes at most this many times the ranks.
_PADDED = 4


@dataclass(frozen=True, eq=False)
class CriticalLinks:
    """Equal rings cut at their critical links into segments, laid side by side.

    ``place`` (longest, segments) is the rank at each place; ``is_rank`` is false for padding (None:
    there is none). ``behind`` and ``ahead`` (s) are the losses between each rank and the critical
    link before its segment and the one after it; ``reach`` (rings, segments) is the loss from the
    first critical link to the one after each segment, ``around`` (rings, 1) that of a full circle.
    ``paced`` (rings, 1) is the time of all rounds on a critical link.
    """

    place: IntArray
    is_rank: NDArray[np.bool_] | None
    behind: FloatArray
    ahead: FloatArray
    reach: FloatArray
    around: FloatArray
    paced: FloatArray

    @classmethod
    def of(
        cls, place: IntArray, seconds: FloatArray, paid: FloatArray, rounds: int
    ) -> CriticalLinks | None:
        """Return the rings whose ranks are in order at ``place`` (rings, ranks).

        ``seconds``, of the same shape, are those of a message to the next rank; ``paid`` (rings) is
        the fixed cost of a rank per round. None if ``rounds`` are too few for this to be exact.
        """
        most = seconds.max(axis=1, keepdims=True)
        is_slower = seconds < most * (1 - _ROUNDING)
        lost = np.where(is_slower, most - seconds, 0.0)
        after = np.roll(lost == 0, 1, axis=1)  # whether a rank is the first after a critical link
        if len(np.unique(after.sum(axis=1))) > 1:
            return None  # rings with different numbers of critical links form no table

        # Rotate each ring until a segment begins at its first place.
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
        """Lay the segments side by side; ``first`` and ``length`` give the place of each."""
        number = np.arange(length.max())[:, None]
        is_rank = number < length
        index = np.where(is_rank, first + number, first)

        before = np.cumsum(lost, axis=1) - lost  # from the ring's first place to each
        round_trip = lost.sum(axis=1, keepdims=True)
        begin = before.ravel()[first]
        end = (before + lost).ravel()[first + length - 1]
        here = before.ravel()[index]
        # Padding is infinitely far from both, so it does not affect any maximum.
        behind = np.where(is_rank, here - begin, np.inf)
        ahead = np.where(is_rank, end - here, np.inf)
        return cls(
            place.ravel()[index],
            None if is_rank.all() else is_rank,
            _one_column_if_equal(behind),
            _one_column_if_equal(ahead),
            end.reshape(len(place), -1),
            round_trip,
            paced,
        )

    def finish(self, ready: FloatArray) -> FloatArray:
        """Return when each place that is ready at ``ready`` (s) has finished."""
        here = ready[self.place]
        # The latest time that each segment passes to the critical link behind it, and to the one
        # ahead of it: both (rings, segments).
        back = (here - self.behind).max(axis=0).reshape(self.reach.shape)
        on = (here - self.ahead).max(axis=0).reshape(self.reach.shape)

        # A critical link receives from its segment and from the next one.
        # With slices, because `numpy.roll` takes several times as long on few links.
        arrivals = np.maximum(on, np.concatenate((back[:, 1:], back[:, :1]), axis=1))
        after = self._latest_arrivals(arrivals) + self.paced
        before = np.concatenate((after[:, -1:], after[:, :-1]), axis=1)
        finishes = np.maximum(before.ravel() - self.behind, after.ravel() - self.ahead)

        finished = ready.copy()
        if self.is_rank is None:
            finished[self.place] = finishes
        else:
            finished[self.place[self.is_rank]] = finishes[self.is_rank]
        return finished

    @cached_property
    def _twice(self) -> FloatArray:
        """The reach of each critical link, and again with one round trip added."""
        return np.concatenate((self.reach, self.reach + self.around), axis=1)

    def _latest_arrivals(self, arrivals: FloatArray) -> FloatArray:
        """Return the latest time that reaches each critical link, in both directions.

        Going twice round the ring accounts for its closure; the time from another link is reduced
        by the difference of their reaches, so running maxima cover all pairs.
        """
        count, reach, twice = arrivals.shape[1], self.reach, self._twice
        # From e to a later f the loss is reach[f] - reach[e]: one term can be applied before the
        # maximum, and the other after it.
        again = np.concatenate((arrivals, arrivals), axis=1)
        latest_behind = np.maximum.accumulate(again + twice, axis=1)
        onwards = latest_behind[:, count:] - twice[:, count:]
        latest_ahead = np.maximum.accumulate((again - twice)[:, ::-1], axis=1)[:, ::-1]
        backwards = latest_ahead[:, :count] + reach
        return np.maximum(onwards, backwards)


def _one_column_if_equal(lost: FloatArray) -> FloatArray:
    """Return one column if all columns are equal, as in a ring through equal nodes."""
    first = lost[:, :1]
    return first.copy() if (lost == first).all() else lost


def _enough(rounds: int, lost: FloatArray, first: IntArray, longest: int) -> bool:
    """Return whether ``rounds`` are enough for every optimal walk.

    The optimal walk must fit in that many turns, and any walk that avoids critical links must lose
    more. A walk via a critical link takes at most one turn less than the ring has ranks, or leaves
    its segment and returns. A walk inside a segment loses at least the segment's least loss in each
    turn, and a detour to an end and back at most twice the segment's loss.
    """
    if rounds < max(lost.shape[1] - 1, 2 * longest):
        return False
    # A walk that stays away from critical links must lose more than any detour to one.
    least = np.min(lost, initial=np.inf, where=lost > 0)
    most = np.add.reduceat(lost.ravel(), first).max()
    return bool(most == 0 or rounds * least >= 2 * most)
