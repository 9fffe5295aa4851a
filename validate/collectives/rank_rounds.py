"""A schedule as one rank carries it out.

For each channel its own rounds, each a few slices to send and to receive.

Compiled once, so that nothing loops over other ranks' transfers while time is measured. A received
slice goes straight into the rank's vector where nothing else of the round touches that place;
elsewhere, and where it is reduced, it goes into a scratch buffer and is taken from there when the
round is done: every source of a round is read before any destination is written. A transfer of no
elements (a barrier's, or of a chunk that is empty) is still a message: one element of scratch.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from dpsim.collectives import Chunking, Round, Schedule


class Send(NamedTuple):
    """Elements ``start .. end - 1`` of the vector go to ``peer``."""

    peer: int
    start: int
    end: int


class Receive(NamedTuple):
    """Elements ``start .. end - 1`` come from ``peer``, by way of ``scratch``.

    That is their first element there; below 0 they come straight into the vector.
    """

    peer: int
    start: int
    end: int
    reduce: bool
    scratch: int = -1

    @property
    def length(self) -> int:
        """Elements of the message: at least one."""
        return max(self.end - self.start, 1)


class RankRound(NamedTuple):
    """Round ``number`` of the schedule for one rank in one channel.

    ``scratch`` elements are needed for it.
    """

    number: int
    sends: tuple[Send, ...]
    receives: tuple[Receive, ...]
    scratch: int


def rank_rounds(
    schedule: Schedule, chunking: Chunking, rank: int
) -> tuple[tuple[RankRound, ...], ...]:
    """The rounds of ``rank`` in each channel of ``schedule``, those without transfers left out.

    Places are elements.
    """
    channels: list[list[RankRound]] = [[] for _ in range(schedule.channels)]
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
    for place, start, end in zip(which, starts, ends, strict=True):
        source, destination = int(current.source[place]), int(current.destination[place])
        if source == rank:
            sends.append(Send(destination, int(start), int(end)))
        else:
            receives.append(Receive(source, int(start), int(end), bool(current.reduce[place])))
    return _with_scratch(number, sends, receives)


def _with_scratch(
    number: int, sends: Sequence[Send], receives: Sequence[Receive], first: int = 0
) -> RankRound:
    """Gives scratch, from ``first`` on, to the receives that need it."""
    placed, scratch = [], first
    for at, receive in enumerate(receives):
        others: list[Send | Receive] = [*sends, *receives[:at], *receives[at + 1 :]]
        straight = (
            not receive.reduce and receive.end > receive.start and not _touched(receive, others)
        )
        placed.append(receive._replace(scratch=-1 if straight else scratch))
        scratch += 0 if straight else receive.length
    return RankRound(number, tuple(sends), tuple(placed), scratch - first)


def _touched(receive: Receive, others: Iterable[Send | Receive]) -> bool:
    return any(other.start < receive.end and receive.start < other.end for other in others)


def lockstep(channels: Sequence[Sequence[RankRound]]) -> Iterator[RankRound]:
    """The rounds of all channels merged by number.

    For a library that takes one group of transfers after another.
    """
    numbers = sorted({each.number for rounds in channels for each in rounds})
    by_number: dict[int, list[RankRound]] = {number: [] for number in numbers}
    for rounds in channels:
        for each in rounds:
            by_number[each.number].append(each)
    for number, merged in by_number.items():
        receives = [receive for each in merged for receive in each.receives]
        yield _with_scratch(number, [send for each in merged for send in each.sends], receives)
