"""The collective operations: each rank's data before and after, and bus bandwidth.

Rank 0 is the root. A rank's buffer is one vector (a personalised all-to-all: one vector per sending
rank), cut into chunks; chunk i belongs to rank i. The size of an operation is that of nccl-tests:
bytes of one rank's whole vector.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.registry import Registry
from dpsim.collectives.schedule import Chunking

Buffers = NDArray[Any]  # (ranks, elements of all vectors)
Expectation = Callable[[Buffers, Buffers, Chunking], None]


@dataclass(frozen=True, slots=True)
class Operation:
    """One collective operation.

    ``bus_factor(ranks)`` turns algbw = bytes / time into busbw, the rate of the busiest link of an
    ideal machine (nccl-tests, doc/PERFORMANCE.md). ``fill(expected, inputs, chunking)`` writes each
    rank's final data into ``expected``, which starts as NaN: entries left NaN may hold
    anything. ``joins_all``: every rank ends with data of every rank, so that none can leave
    before all have entered.
    """

    name: str
    bus_factor: Callable[[int], float]
    fill: Expectation
    joins_all: bool = True

    def expected(self, inputs: Buffers, chunking: Chunking) -> Buffers:
        """Return the final data of the ranks, (ranks, elements) like ``inputs``.

        It is NaN where anything is allowed.
        """
        expected = np.full(inputs.shape, np.nan)
        self.fill(expected, inputs, chunking)
        return expected


def _owned(rank: int, chunking: Chunking) -> slice:
    start, end = chunking.start(np.array([rank, rank + 1]))
    return slice(int(start), int(end))


def _all_reduce(expected: Buffers, inputs: Buffers, chunking: Chunking) -> None:
    expected[:] = inputs.sum(axis=0)


def _reduce(expected: Buffers, inputs: Buffers, chunking: Chunking) -> None:
    expected[0] = inputs.sum(axis=0)


def _broadcast(expected: Buffers, inputs: Buffers, chunking: Chunking) -> None:
    expected[:] = inputs[0]


def _scatter(expected: Buffers, inputs: Buffers, chunking: Chunking) -> None:
    for rank, row in enumerate(expected):
        row[_owned(rank, chunking)] = inputs[0, _owned(rank, chunking)]


def _gather(expected: Buffers, inputs: Buffers, chunking: Chunking) -> None:
    for rank, row in enumerate(inputs):
        expected[0, _owned(rank, chunking)] = row[_owned(rank, chunking)]


def _all_gather(expected: Buffers, inputs: Buffers, chunking: Chunking) -> None:
    for rank, row in enumerate(inputs):
        expected[:, _owned(rank, chunking)] = row[_owned(rank, chunking)]


def _reduce_scatter(expected: Buffers, inputs: Buffers, chunking: Chunking) -> None:
    for rank, row in enumerate(expected):
        row[_owned(rank, chunking)] = inputs[:, _owned(rank, chunking)].sum(axis=0)


def _all_to_all(expected: Buffers, inputs: Buffers, chunking: Chunking) -> None:
    ranks = len(inputs)
    for sender in range(ranks):
        for receiver in range(ranks):
            # A sender's vector has m chunks; the j-th is for rank j.
            part = _owned(sender * ranks + receiver, chunking)
            expected[receiver, part] = inputs[sender, part]


def _nothing(expected: Buffers, inputs: Buffers, chunking: Chunking) -> None:
    """Expect nothing, because a barrier moves no data."""


def _whole_vector(ranks: int) -> float:
    return 1.0


def _others_chunks(ranks: int) -> float:
    return (ranks - 1) / ranks


def _others_chunks_twice(ranks: int) -> float:
    return 2 * (ranks - 1) / ranks


OPERATIONS = Registry(
    "collective operation",
    {
        operation.name: operation
        for operation in (
            Operation("all-reduce", _others_chunks_twice, _all_reduce),
            # A rank that only sends, or receives only from the root, does not wait for the others.
            Operation("reduce", _whole_vector, _reduce, joins_all=False),
            Operation("broadcast", _whole_vector, _broadcast, joins_all=False),
            Operation("gather", _others_chunks, _gather, joins_all=False),
            Operation("scatter", _others_chunks, _scatter, joins_all=False),
            Operation("reduce-scatter", _others_chunks, _reduce_scatter),
            Operation("all-gather", _others_chunks, _all_gather),
            Operation("all-to-all", _others_chunks, _all_to_all),
            Operation("barrier", _whole_vector, _nothing),
        )
    },
)
