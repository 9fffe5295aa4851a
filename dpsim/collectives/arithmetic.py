"""Runs a schedule on numpy arrays: the proof that every rank ends with what the operation promises."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from dpsim.collectives.schedule import Chunking, Round, Schedule


def execute(schedule: Schedule, inputs: NDArray[Any]) -> NDArray[Any]:
    """The buffers of all ranks after ``schedule``; ``inputs`` is (ranks, elements of all vectors)
    and stays as it was.
    """
    chunking = Chunking(inputs.shape[1] // schedule.vectors, schedule.chunks, schedule.vectors)
    buffers = inputs.copy()
    for current in schedule.each_round():
        _run(current, buffers, chunking)
    return buffers


def _run(current: Round, buffers: NDArray[Any], chunking: Chunking) -> None:
    """All transfers of one round: every source is read before any destination is written."""
    starts = chunking.start(current.chunk)
    ends = chunking.start(current.chunk + current.count)
    transfers = list(
        zip(current.source, current.destination, starts, ends, current.reduce, strict=True)
    )
    messages = [buffers[source, start:end].copy() for source, _, start, end, _ in transfers]
    for (_, destination, start, end, reduce), message in zip(transfers, messages, strict=True):
        if reduce:
            buffers[destination, start:end] += message
        else:
            buffers[destination, start:end] = message
