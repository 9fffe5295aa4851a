"""Run a schedule on numpy arrays, to prove that every rank ends with the right result."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import IntArray
from dpsim.collectives.schedule import Chunking, Round, Schedule


def execute(schedule: Schedule, inputs: NDArray[Any]) -> NDArray[Any]:
    """Return the buffers of all ranks after ``schedule``.

    ``inputs`` is (ranks, elements of all vectors) and is not changed.
    """
    buffers = inputs.copy()
    for _ in _run_rounds(schedule, buffers):
        pass
    return buffers


def contributions(schedule: Schedule) -> Iterator[IntArray]:
    """Yield the contributions to each chunk, before the first round and after each.

    Entry (i, c, j) of each array (ranks, chunks of all vectors, ranks) counts how often chunk c on
    rank i includes rank j's contribution.
    """
    chunks = schedule.chunks * schedule.vectors
    # One-hot rows, one per rank: their sum counts the contribution of each rank.
    own = np.eye(schedule.ranks, dtype=np.int64)
    buffers = own[:, None, :].repeat(chunks, axis=1)
    yield buffers.copy()
    for _ in _run_rounds(schedule, buffers):
        yield buffers.copy()


def _run_rounds(schedule: Schedule, buffers: NDArray[Any]) -> Iterator[Round]:
    """Yield each round, after applying it to ``buffers``."""
    elements = buffers.shape[1] // schedule.vectors
    chunking = Chunking(elements, schedule.chunks, schedule.vectors)
    for current in schedule.each_round():
        _run(current, buffers, chunking)
        yield current


def _run(current: Round, buffers: NDArray[Any], chunking: Chunking) -> None:
    """Run all transfers of one round; all sources are read before any destination is written."""
    starts = chunking.start(current.chunk)
    ends = chunking.start(current.chunk + current.count)
    parts = [slice(start, end) for start, end in zip(starts, ends, strict=True)]
    # Copies, because in an exchange each rank must send the values from before the round.
    messages = [
        buffers[source, part].copy() for source, part in zip(current.source, parts, strict=True)
    ]
    transfers = zip(current.destination, parts, current.reduce, messages, strict=True)
    for destination, part, reduce, message in transfers:
        if reduce:
            buffers[destination, part] += message
        else:
            buffers[destination, part] = message
