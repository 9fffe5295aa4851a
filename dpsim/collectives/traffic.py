"""The traffic of a schedule: bytes sent and received by each rank, counted from its transfers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.base.budget import check
from dpsim.collectives.schedule import Schedule


@dataclass(frozen=True, slots=True, eq=False)
class Traffic:
    """Bytes that each rank sends and receives, vectors over ranks.

    ``by_others`` are the bytes sent by devices other than ranks (servers, CPUs).
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
        """The largest sum of bytes sent and received by a rank."""
        return int((self.sent + self.received).max(initial=0))

    @property
    def total(self) -> int:
        """Total bytes sent."""
        return int(self.sent.sum()) + self.by_others


def traffic(schedule: Schedule, nbytes: int, itemsize: int = 1) -> Traffic:
    """Count the bytes of every transfer of ``schedule`` on vectors of ``nbytes``.

    They are rounded up to whole items of ``itemsize`` bytes.
    """
    chunking = schedule.chunking(nbytes, itemsize)
    sent = np.zeros(schedule.ranks, dtype=np.int64)
    received = np.zeros(schedule.ranks, dtype=np.int64)
    for phase in schedule.phases:
        if phase.destination.shift == 0:
            # The same pairs in every turn, so all turns are counted at once.
            moved = phase.bytes_over_turns(chunking)
            np.add.at(sent, phase.source, moved)
            np.add.at(received, phase.destination.at(0), moved)
            continue
        for turn in range(phase.uses):
            check()
            moved = chunking.nbytes(phase.chunk.at(turn), np.asarray(phase.count))
            np.add.at(sent, phase.source, moved)
            np.add.at(received, phase.destination.at(turn), moved)
    return Traffic(sent, received)
