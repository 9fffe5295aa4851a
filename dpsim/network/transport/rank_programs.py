"""The program of each rank in a collective: its messages and the waits in between."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from math import ceil
from typing import NamedTuple

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.collectives import Round, Schedule


class Step(NamedTuple):
    """The messages that a rank posts at once.

    ``receives`` and ``sends`` are (peer, bytes); ``reduced`` bytes are added up when it is done.
    """

    receives: tuple[tuple[int, int], ...]
    sends: tuple[tuple[int, int], ...]
    reduced: int = 0


class Stage(NamedTuple):
    """Steps of which at most ``depth`` are in flight; all are done before the next stage."""

    steps: tuple[Step, ...]
    depth: int = 1


Programs = tuple[tuple[Stage, ...], ...]  # of each rank

# Cached, because a fit predicts the same few cases over many transports.
_KEPT = 64


@lru_cache(maxsize=_KEPT)
def schedule_programs(schedule: Schedule, nbytes: int, itemsize: int) -> Programs:
    """Return the program of every rank: its rounds, one after the other."""
    chunking = schedule.chunking(nbytes, itemsize)
    steps: list[list[Step]] = [[] for _ in range(schedule.ranks)]
    for current in schedule.each_round():
        sizes = chunking.nbytes(current.chunk, current.count).astype(np.int64)
        for rank, rank_steps in enumerate(steps):
            step = _step(current, sizes, rank)
            # A rank without messages in a round does not wait for it.
            if step.receives or step.sends:
                rank_steps.append(step)
    return tuple((Stage(tuple(rank_steps)),) for rank_steps in steps)


def _step(current: Round, sizes: IntArray, rank: int) -> Step:
    """Return the step of one rank in a round."""
    incoming, outgoing = current.destination == rank, current.source == rank
    receives = zip(current.source[incoming].tolist(), sizes[incoming].tolist(), strict=True)
    sends = zip(current.destination[outgoing].tolist(), sizes[outgoing].tolist(), strict=True)
    reduced = int(sizes[incoming & current.reduce].sum())
    return Step(tuple(receives), tuple(sends), reduced)


@lru_cache(maxsize=_KEPT)
def gloo_programs(ranks: int, nbytes: int, segments: int, itemsize: int) -> Programs:
    """Return gloo's ring towards rank - 1: reduce-scatter, then all-gather.

    Each sends one segment after the other with two in flight. Source: pytorch/gloo,
    gloo/allreduce.cc (segments of equal bytes; those beyond the vector's end are shorter, or
    empty).
    """
    segments_per_rank = segments // ranks  # in a rank's share
    length = ceil(ceil(nbytes / segments) / itemsize) * itemsize

    def ring(rank: int, first: int) -> Stage:
        steps = _ring_steps(rank, ranks, nbytes, segments_per_rank, length, first)
        return Stage(tuple(steps), depth=2)

    # Reduce, then gather. A rank begins with its neighbour's share and ends with its own.
    return tuple((ring(rank, 1), ring(rank, 0)) for rank in range(ranks))


def _ring_steps(
    rank: int, ranks: int, nbytes: int, segments_per_rank: int, length: int, first: int
) -> Iterator[Step]:
    """Yield a rank's steps round the ring, which begin with sending the share rank + ``first``.

    ``first`` is 1 while vectors are reduced, 0 while they are gathered.
    """
    segments = ranks * segments_per_rank

    def size(segment: int) -> int:
        begin = segment % segments * length
        return min(length, max(nbytes - begin, 0))

    for number in range((ranks - 1) * segments_per_rank):
        sent = size((rank + first) * segments_per_rank + number)
        received = size((rank + first + 1) * segments_per_rank + number)
        receives = (((rank + 1) % ranks, received),) if received else ()
        sends = (((rank - 1) % ranks, sent),) if sent else ()
        yield Step(receives, sends, received if first else 0)
