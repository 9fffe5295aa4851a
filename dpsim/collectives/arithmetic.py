"""Runs a schedule on numpy arrays: the proof that every rank ends with what was promised."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from dpsim.collectives.schedule import Chunking, Round, Schedule


def execute(schedule: Schedule, inputs: NDArray[Any]) -> NDArray[Any]:
    """The buffers of all ranks after ``schedule``.

    ``inputs`` is (ranks, elements of all vectors) and stays as it was.
    """
    elements = inputs.shape[1] // schedule.vectors
    chunking = Chunking(elements, schedule.chunks, schedule.vectors)
    buffers = inputs.copy()
    for current in schedule.each_round():
        _run(current, buffers, chunking)
    return buffers


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
