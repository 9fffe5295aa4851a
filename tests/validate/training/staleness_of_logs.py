"""The two stalenesses of a run, from a server's log; they are never mixed.

Clock gap: how many iterations the reader is ahead of the slowest worker. Versions: how many updates
of others were applied between a worker's read and its own update.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from validate.training import Event
from validate.training.parameter_server import PUSHED
from validate.training.rank_record import READ, UPDATED


def clock_gaps(log: Sequence[Event], workers: int) -> list[int]:
    """The clock gap of each read, in the order of the log."""
    finished: Counter[int] = Counter()
    gaps = []
    for event in log:
        if event.what == PUSHED:
            finished[event.worker] += 1
        elif event.what == READ:
            # Over all workers, not the counter's keys: who has finished nothing is the slowest.
            slowest = min(finished[worker] for worker in range(workers))
            gaps.append(event.clock - slowest)
    return gaps


def version_gaps(log: Sequence[Event]) -> list[int]:
    """For each update in the order of the log, the updates of others since its worker had read."""
    read_at: dict[tuple[int, int], int] = {}
    gaps = []
    for event in log:
        if event.what == READ:
            read_at[event.worker, event.clock] = event.version
        elif event.what == UPDATED:
            # The version counts this very update, which is none of others.
            others = event.version - 1
            gaps.append(others - read_at[event.worker, event.clock])
    return gaps
