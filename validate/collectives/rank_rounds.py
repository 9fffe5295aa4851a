"""A schedule from the view of one rank: rounds of slices to send and to receive, by channel.

Compiled once, so that nothing loops over other ranks' transfers during measurements. A slice is
received directly into the rank's vector if nothing else of the round uses that range; otherwise,
and if it is reduced, it is received into a scratch buffer and taken from there when the round is
done: every source of a round is read before any destination is written. A transfer of no elements
(a barrier's, or of an empty chunk) is still a message: one element of scratch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, groupby
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
    """Round ``number`` of the schedule for one rank in one channel.

    It needs ``scratch`` elements.
    """

    number: int
    sends: tuple[Send, ...]
    receives: tuple[Receive, ...]
    scratch: int


def rank_rounds(
    schedule: Schedule, chunking: Chunking, rank: int
) -> tuple[tuple[RankRound, ...], ...]:
    """Return the rounds of ``rank`` in each channel of ``schedule``, without empty ones.

    Positions are in elements.
    """
    channels: list[list[RankRound]] = [[] for _ in range(schedule.channels)]
    # A round holds all channels and all ranks: its arrays have one entry per transfer.
    for number, current in enumerate(schedule.each_round()):
        mine = np.flatnonzero((current.source == rank) | (current.destination == rank))
        for channel in np.unique(current.channel[mine]):
            of_channel = mine[current.channel[mine] == channel]
            channels[channel].append(_round(number, current, of_channel, chunking, rank))
    return tuple(tuple(rounds) for rounds in channels)


def _round(
    number: int,
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
    return _with_scratch(number, sends, receives)


def _with_scratch(number: int, sends: Sequence[Send], receives: Sequence[Receive]) -> RankRound:
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
    return RankRound(number, tuple(sends), tuple(placed), scratch)


def _touched(receive: Receive, others: Iterable[Send | Receive]) -> bool:
    """Return whether another message of the round has some of the same elements."""
    return any(other.start < receive.end and receive.start < other.end for other in others)


def lockstep(channels: Sequence[Sequence[RankRound]]) -> Iterator[RankRound]:
    """Yield the rounds of all channels merged by number.

    For a library that runs one group of transfers after another.
    """
    # The sort is stable: rounds of one number stay in the order of their channels.
    rounds = sorted(chain.from_iterable(channels), key=lambda each: each.number)
    for number, merged in groupby(rounds, key=lambda each: each.number):
        sends: list[Send] = []
        receives: list[Receive] = []
        for each in merged:
            sends += each.sends
            receives += each.receives
        # Scratch is assigned again, as a transfer of another channel may use the same elements.
        yield _with_scratch(number, sends, receives)
