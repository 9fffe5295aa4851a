"""A schedule from the view of one rank: rounds of slices to send and to receive.

Compiled once, so that nothing loops over other ranks' transfers during measurements. A slice is
received directly into the rank's vector if nothing else of the round uses that range; otherwise,
and if it is reduced, it is received into a scratch buffer and taken from there when the round is
done: every source of a round is read before any destination is written. A transfer of no elements
(a barrier's, or of an empty chunk) is still a message: one element of scratch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from dpsim.collectives import Chunking, Round, Schedule


class Send(NamedTuple):
    """Elements ``start .. end - 1`` of the vector, sent to ``peer``."""

    peer: int
    start: int
    end: int


class Receive(NamedTuple):
    """Elements ``start .. end - 1``, received from ``peer`` by way of ``scratch``.

    ``scratch`` is their first element there; below 0 they are received directly into the vector.
    """

    peer: int
    start: int
    end: int
    reduce: bool
    scratch: int = -1

    @property
    def length(self) -> int:
        """The elements of the message: at least one."""
        return max(self.end - self.start, 1)


class RankRound(NamedTuple):
    """A round of the schedule for one rank; it needs ``scratch`` elements."""

    sends: tuple[Send, ...]
    receives: tuple[Receive, ...]
    scratch: int


def rank_rounds(schedule: Schedule, chunking: Chunking, rank: int) -> tuple[RankRound, ...]:
    """Return the rounds of ``rank`` in ``schedule``, without empty ones.

    Positions are in elements.
    """
    rounds = []
    for current in schedule.each_round():
        mine = np.flatnonzero((current.source == rank) | (current.destination == rank))
        if len(mine):
            rounds.append(_round(current, mine, chunking, rank))
    return tuple(rounds)


def _round(
    current: Round,
    which: np.ndarray[tuple[int], np.dtype[np.int64]],
    chunking: Chunking,
    rank: int,
) -> RankRound:
    starts = chunking.start(current.chunk[which])
    ends = chunking.start(current.chunk[which] + current.count[which])
    sends, receives = [], []
    for transfer, start, end in zip(which, starts.tolist(), ends.tolist(), strict=True):
        source = int(current.source[transfer])
        destination = int(current.destination[transfer])
        if source == rank:
            sends.append(Send(destination, start, end))
        else:
            receives.append(Receive(source, start, end, bool(current.reduce[transfer])))
    return _with_scratch(sends, receives)


def _with_scratch(sends: Sequence[Send], receives: Sequence[Receive]) -> RankRound:
    """Assign scratch to the receives that need it, one after the other."""
    placed = []
    scratch = 0
    for at, receive in enumerate(receives):
        others: list[Send | Receive] = [*sends, *receives[:at], *receives[at + 1 :]]
        empty = receive.end == receive.start
        # All others are received in place, without a copy.
        if receive.reduce or empty or _touched(receive, others):
            placed.append(receive._replace(scratch=scratch))
            scratch += receive.length
        else:
            placed.append(receive._replace(scratch=-1))
    return RankRound(tuple(sends), tuple(placed), scratch)


def _touched(receive: Receive, others: Iterable[Send | Receive]) -> bool:
    """Return whether another message of the round has some of the same elements."""
    return any(other.start < receive.end and receive.start < other.end for other in others)
