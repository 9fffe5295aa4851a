"""A collective operation compiled to plain data: phases of rounds of transfers.

A schedule does not depend on time or devices. A rank's round r waits for its own round r-1. A
regular schedule is stored as one pattern repeated with a shift, so that a ring of 16,384 ranks,
half a billion transfers, is a few arrays of 16,384 numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dpsim.base.arrays import BoolArray, IntArray


@dataclass(frozen=True, slots=True, eq=False)
class Cyclic:
    """Integers that advance on a cycle from turn to turn.

    In turn ``turn`` they are ``base + stride * ((index + turn * shift) mod modulus)``. ``index``
    has one entry per transfer; ``base`` has one per transfer or one for all.
    """

    index: IntArray
    modulus: int
    shift: int = 0
    base: IntArray | int = 0
    stride: int = 1

    def at(self, turn: IntArray | int) -> IntArray:
        """Return the integers at ``turn``, one per transfer; turns may differ between transfers."""
        return self.base + self.stride * ((self.index + turn * self.shift) % self.modulus)

    def longest(self) -> IntArray:
        """Return the first integer of each transfer's cycle.

        The chunk with this number is at least as long as the others on the cycle (see `Chunking`).
        """
        if self.shift == 0:
            return self.at(0)
        return np.broadcast_to(np.asarray(self.base), self.index.shape)

    def count_below(self, bound: int, turns: int) -> IntArray:
        """Return in how many of the first ``turns`` turns each entry is below ``bound``.

        For shifts of -1, 0 and 1.
        """
        # An integer is below ``bound`` if its index on the cycle is below this, rounded up.
        limit = np.clip(-((self.base - bound) // self.stride), 0, self.modulus)
        if self.shift == 0:
            return np.where(self.index % self.modulus < limit, turns, 0)
        # In either direction, the turns together visit consecutive places, from ``first`` on.
        first = self.index if self.shift == 1 else self.index - turns + 1
        return self._times_below(first + turns, limit) - self._times_below(first, limit)

    def _times_below(self, end: IntArray, limit: IntArray) -> IntArray:
        """Return how many of the integers 0 .. end - 1 are below ``limit`` modulo the cycle."""
        whole_cycles, rest = np.divmod(end, self.modulus)
        return np.asarray(whole_cycles * limit + np.minimum(rest, limit))


def fixed(values: IntArray | list[int] | range) -> Cyclic:
    """Return the same integers in every turn."""
    index = np.asarray(values, dtype=np.int64)
    # The modulus is above all of them, so it changes none.
    return Cyclic(index, modulus=int(index.max(initial=0)) + 1)


@dataclass(frozen=True, slots=True, eq=False)
class Round:
    """Transfers that happen together; arrays with one entry per transfer.

    ``source`` sends chunks ``chunk .. chunk + count - 1`` to ``destination``, which adds them to
    its own if ``reduce`` is true, and otherwise replaces its own.
    """

    source: IntArray
    destination: IntArray
    chunk: IntArray
    count: IntArray
    reduce: BoolArray


@dataclass(frozen=True, slots=True, eq=False)
class Window:
    """The turns in which each transfer happens.

    It happens ``uses`` times, every ``every`` turns, from turn ``first`` on. This pipelines chunks
    through a tree: transfers nearer to the end of the path are first used later.
    """

    first: IntArray
    uses: int
    every: int = 1

    @property
    def turns(self) -> int:
        """The number of turns until every transfer has happened ``uses`` times."""
        return int(self.first.max(initial=0)) + (self.uses - 1) * self.every + 1

    def at(self, turn: int) -> tuple[BoolArray, IntArray]:
        """Return which transfers happen in ``turn``, and how often each has happened before."""
        before, waits = np.divmod(turn - self.first, self.every)
        happens = (before >= 0) & (before < self.uses) & (waits == 0)
        return happens, before


@dataclass(frozen=True, slots=True, eq=False)
class Phase:
    """One pattern of transfers, repeated ``turns`` times with a shift.

    A turn is a round, or all turns happen ``at_once`` in one round. With a ``window``, each
    transfer takes part only in its own turns; destination and chunk advance with each use.
    """

    source: IntArray
    destination: Cyclic
    chunk: Cyclic
    reduce: BoolArray | bool
    count: IntArray | int = 1
    turns: int = 1
    at_once: bool = False
    window: Window | None = None

    @property
    def rounds(self) -> int:
        """The number of rounds: 1 if all turns happen at once."""
        return 1 if self.at_once else self.turns

    @property
    def uses(self) -> int:
        """How often each transfer happens."""
        return self.turns if self.window is None else self.window.uses

    @property
    def steady(self) -> bool:
        """Whether every round has the same senders and receivers."""
        return self.rounds == 1 or (self.destination.shift == 0 and self.window is None)

    def round(self, number: int) -> Round:
        """Return the transfers of one round, ``0 <= number < rounds``."""
        # With a window, each transfer is in its own turn; otherwise all are in the same one.
        if self.window is not None:
            happens, before = self.window.at(number)
            return self.laid_out([before], happens)
        if self.at_once:
            return self.laid_out(range(self.turns))
        return self.laid_out((number,))

    def bytes_over_turns(self, chunking: Chunking) -> IntArray:
        """Return the bytes that each transfer of the pattern moves in all turns together."""
        count = np.asarray(self.count)
        chunk = self.chunk
        if chunk.shift == 0 or self.uses == 1:
            return np.asarray(self.uses * chunking.nbytes(chunk.at(0), count))

        # Counting works for single chunks of one vector that move by one per turn.
        single_chunks = not np.any(count != 1) and chunk.stride == 1 and abs(chunk.shift) == 1
        if not single_chunks or chunking.vectors != 1:
            turns = [chunking.nbytes(chunk.at(turn), count) for turn in range(self.uses)]
            return np.asarray(np.sum(turns, axis=0))

        # Chunks have two lengths, the longer ones first: count the turns in which a transfer
        # carries a longer one.
        base, longer = divmod(chunking.elements, chunking.chunks)
        elements = self.uses * base + chunk.count_below(longer, self.uses)
        return np.asarray(elements * chunking.itemsize)

    def laid_out(
        self, turns: Sequence[IntArray | int], which: BoolArray | slice = slice(None)
    ) -> Round:
        """Return the transfers of some turns as one round, limited to the transfers ``which``."""
        count = len(self.source)

        def repeated(values: IntArray | BoolArray | int) -> NDArray[Any]:
            each = values if isinstance(values, np.ndarray) else np.full(count, values)
            return each[which] if len(turns) == 1 else np.tile(each[which], len(turns))

        def moved(values: Cyclic) -> IntArray:
            each = [values.at(turn)[which] for turn in turns]
            return each[0] if len(each) == 1 else np.concatenate(each)

        # Turn by turn: all transfers of the pattern in one turn, then all in the next.
        return Round(
            repeated(self.source),
            moved(self.destination),
            moved(self.chunk),
            repeated(self.count),
            repeated(self.reduce),
        )

    def __repr__(self) -> str:
        kinds = ["reduce" if reduces else "copy" for reduces in np.unique(self.reduce)]
        at_once = " at once" if self.at_once else ""
        return (
            f"<Phase {' and '.join(kinds)}: {len(self.source)} transfers x {self.turns} "
            f"turns{at_once}>"
        )


@dataclass(frozen=True, slots=True)
class Chunking:
    """The division of a vector of ``elements`` into ``chunks``.

    Chunks are as even as whole elements allow, the longer ones first. Several ``vectors`` of that
    length, concatenated, are divided equally; chunk numbers continue from one to the next.
    """

    elements: int
    chunks: int
    vectors: int = 1
    itemsize: int = 1

    def start(self, chunk: IntArray) -> IntArray:
        """Return the first element of each chunk; ``start(chunks * vectors)`` is the end."""
        base, longer = divmod(self.elements, self.chunks)
        if self.vectors == 1:  # avoids a division for each of a million chunks
            return np.asarray(chunk * base + np.minimum(chunk, longer))
        vector, local = np.divmod(chunk, self.chunks)
        before = local * base + np.minimum(local, longer)
        return np.asarray(vector * self.elements + before)

    def nbytes(self, chunk: IntArray, count: IntArray) -> IntArray:
        """Return the bytes in ``count`` chunks from ``chunk`` on."""
        base, longer = divmod(self.elements, self.chunks)
        if not longer and count.shape == chunk.shape:  # all chunks have equal lengths
            return np.asarray(count * (base * self.itemsize))
        elements = self.start(chunk + count) - self.start(chunk)
        return np.asarray(elements * self.itemsize)

    @property
    def largest(self) -> int:
        """Bytes of the largest chunk."""
        return -(-self.elements // self.chunks) * self.itemsize

    @property
    def total(self) -> int:
        """Bytes of one vector."""
        return self.elements * self.itemsize


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """A collective operation of ``ranks`` ranks on a vector of ``chunks`` chunks.

    ``vectors`` is above 1 if ranks hold more than one vector (in a personalised all-to-all, each
    sender's data is a vector). If several groups run the operation concurrently, ``members`` holds
    the ranks of each, a row per group, evenly spaced, and ``of_each`` is the schedule of one.
    """

    operation: str
    algorithm: str
    ranks: int
    chunks: int
    phases: tuple[Phase, ...]
    vectors: int = 1
    members: IntArray | None = None
    of_each: Schedule | None = None

    @property
    def rounds(self) -> int:
        """The number of rounds in all phases."""
        return sum(phase.rounds for phase in self.phases)

    @property
    def most_at_once(self) -> int:
        """An upper bound on the transfers of a round: exact without a window."""
        most = 0
        for phase in self.phases:
            turns = phase.turns if phase.at_once else 1
            most = max(most, turns * len(phase.source))
        return most

    @property
    def transfers(self) -> int:
        """Transfers of all rounds."""
        return sum(phase.uses * len(phase.source) for phase in self.phases)

    def each_round(self) -> Iterator[Round]:
        """Yield all rounds in order, each laid out in full; for small schedules."""
        for phase in self.phases:
            for number in range(phase.rounds):
                yield phase.round(number)

    def chunking(self, nbytes: int, itemsize: int = 1) -> Chunking:
        """Return how ``nbytes`` per vector are divided into this schedule's chunks.

        They are rounded up to whole items of ``itemsize`` bytes.
        """
        elements = -(-nbytes // itemsize)
        return Chunking(elements, self.chunks, self.vectors, itemsize)

    def __repr__(self) -> str:
        return (
            f"<Schedule {self.operation}/{self.algorithm}: {self.ranks} ranks, "
            f"{self.chunks} chunks, {self.rounds} rounds>"
        )


def ranks_array(ranks: int) -> IntArray:
    """Return ``0 .. ranks - 1`` as an integer array."""
    return np.arange(ranks, dtype=np.int64)
