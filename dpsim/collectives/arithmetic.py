"""Runs a schedule on numpy arrays: the proof that every rank ends with what the operation promises."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from dpsim.collectives.schedule import Round, Schedule, Split


def execute(schedule: Schedule, inputs: NDArray[Any]) -> NDArray[Any]:
    """The buffers of all ranks after ``schedule``; ``inputs`` is (ranks, elements of all vectors)
    and stays as it was.
    """
    split = Split(inputs.shape[1] // schedule.vectors, schedule.chunks, schedule.vectors)
    buffers = inputs.copy()
    for current in schedule.each_round():
        _run(current, buffers, split)
    return buffers


def _run(current: Round, buffers: NDArray[Any], split: Split) -> None:
    """All transfers of one round: every source is read before any destination is written."""
    starts = split.start(current.chunk)
    ends = split.start(current.chunk + current.count)
    transfers = list(
        zip(current.source, current.destination, starts, ends, current.reduce, strict=True)
    )
    messages = [buffers[source, start:end].copy() for source, _, start, end, _ in transfers]
    for (_, destination, start, end, reduce), message in zip(transfers, messages, strict=True):
        if reduce:
            buffers[destination, start:end] += message
        else:
            buffers[destination, start:end] = message
