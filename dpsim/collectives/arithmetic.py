"""Runs a schedule on numpy arrays: the proof that every rank ends with what was promised."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import IntArray
from dpsim.collectives.schedule import Chunking, Round, Schedule


def execute(schedule: Schedule, inputs: NDArray[Any]) -> NDArray[Any]:
    """The buffers of all ranks after ``schedule``.

    ``inputs`` is (ranks, elements of all vectors) and stays as it was.
    """
    buffers = inputs.copy()
    for _ in _carried_out(schedule, buffers):
        pass
    return buffers


def contributions(schedule: Schedule) -> Iterator[IntArray]:
    """Whose numbers each rank's chunks are the sum of: before the first round and after each.

    Arrays of (ranks, chunks of all vectors, ranks): how often the chunk that a rank holds has the
    last rank's own in it. The schedule is carried out on chunks that begin as their owners alone.
    """
    chunks = schedule.chunks * schedule.vectors
    # A row for each rank, with a one for itself: what rows add up to counts whose numbers are in.
    own = np.eye(schedule.ranks, dtype=np.int64)
    buffers = own[:, None, :].repeat(chunks, axis=1)
    yield buffers.copy()
    for _ in _carried_out(schedule, buffers):
        yield buffers.copy()


def _carried_out(schedule: Schedule, buffers: NDArray[Any]) -> Iterator[Round]:
    """Each round, once ``buffers`` are as they are after it."""
    elements = buffers.shape[1] // schedule.vectors
    chunking = Chunking(elements, schedule.chunks, schedule.vectors)
    for current in schedule.each_round():
        _run(current, buffers, chunking)
        yield current


def _run(current: Round, buffers: NDArray[Any], chunking: Chunking) -> None:
    """All transfers of one round: every source is read before any destination is written."""
    starts = chunking.start(current.chunk)
    ends = chunking.start(current.chunk + current.count)
    parts = [slice(start, end) for start, end in zip(starts, ends, strict=True)]
    # Copies: where two ranks exchange, each must send what it held before the round.
    messages = [
        buffers[source, part].copy() for source, part in zip(current.source, parts, strict=True)
    ]
    transfers = zip(current.destination, parts, current.reduce, messages, strict=True)
    for destination, part, reduce, message in transfers:
        if reduce:
            buffers[destination, part] += message
        else:
            buffers[destination, part] = message
