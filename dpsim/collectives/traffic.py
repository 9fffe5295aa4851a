"""What a schedule moves: bytes sent and received by each rank, counted from its transfers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import IntArray
from dpsim.base.budget import check
from dpsim.collectives.schedule import Chunking, Phase, Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Bytes that each rank sends and receives, vectors over ranks.

    ``by_others`` is what others than ranks (servers, CPUs) send.
    """

    sent: IntArray
    received: IntArray
    by_others: int = 0

    @property
    def busiest(self) -> int:
        """Bytes sent by the rank that sends most."""
        return int(self.sent.max(initial=0))

    @property
    def busiest_both_ways(self) -> int:
        """Bytes sent plus received by the rank for which that is most."""
        return int((self.sent + self.received).max(initial=0))

    @property
    def total(self) -> int:
        """Bytes sent by all."""
        return int(self.sent.sum()) + self.by_others


def traffic(schedule: Schedule, chunking: Chunking) -> Traffic:
    """Count the bytes of every transfer of ``schedule`` when its vector is cut by ``chunking``."""
    sent = np.zeros(schedule.ranks, dtype=np.int64)
    received = np.zeros(schedule.ranks, dtype=np.int64)
    for phase in schedule.phases:
        if phase.destination.shift == 0:
            # The same pairs in every turn: counted at once, however many turns there are.
            nbytes = bytes_over_turns(phase, chunking)
            np.add.at(sent, phase.source, nbytes)
            np.add.at(received, phase.destination.at(0), nbytes)
            continue
        for turn in range(phase.uses):
            check()
            nbytes = chunking.nbytes(phase.chunk.at(turn), np.asarray(phase.count))
            np.add.at(sent, phase.source, nbytes)
            np.add.at(received, phase.destination.at(turn), nbytes)
    return Traffic(sent, received)


def bytes_over_turns(phase: Phase, chunking: Chunking) -> NDArray[np.int64]:
    """Bytes that each transfer of the pattern moves in all turns of ``phase`` together."""
    count = np.asarray(phase.count)
    chunk = phase.chunk
    if chunk.shift == 0 or phase.uses == 1:
        return np.asarray(phase.uses * chunking.nbytes(chunk.at(0), count))

    # Counting by the cycle is for one chunk a turn that moves on by one: others are added up.
    single_chunks = not np.any(count != 1) and chunk.stride == 1 and abs(chunk.shift) == 1
    if not single_chunks or chunking.vectors != 1:
        turns = [chunking.nbytes(chunk.at(turn), count) for turn in range(phase.uses)]
        return np.asarray(np.sum(turns, axis=0))

    # Chunks have two lengths, the longer ones first: count the turns in which a transfer carries
    # one of those.
    base, longer = divmod(chunking.elements, chunking.chunks)
    elements = phase.uses * base + chunk.count_below(longer, phase.uses)
    return np.asarray(elements * chunking.itemsize)
