"""Workers that act together: under BSP all-reduce the state of all of them is a vector of clock times, moved once per operation."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from dpsim.engine.job import Job
from dpsim.engine.wire import Message
from dpsim.topology.network import FloatArray, IntArray
from dpsim.workload import Loading


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """Seconds per step and worker, arrays of shape (steps, workers).

    ``compute + input + encode + exposed_comm + straggler_wait`` is the step.
    """

    compute: FloatArray
    exposed_comm: FloatArray
    straggler_wait: FloatArray
    overlapped_comm: FloatArray
    input: FloatArray
    encode: FloatArray

    @property
    def step(self) -> FloatArray:
        """Seconds of each whole step."""
        return self.compute + self.input + self.encode + self.exposed_comm + self.straggler_wait


def run_together(job: Job, factors: FloatArray, progress: Callable[[int], None]) -> Steps:
    """Simulate one step per row of ``factors`` (steps, workers), which multiply each worker's compute time.

    ``progress`` is called with the number of steps done after each of them.
    """
    records = Steps(*(np.zeros_like(factors) for _ in range(6)))
    messages, positions = job.messages, job.positions
    whole = positions[-1][job.kind_of] + job.updates
    walk = _Walk(positions, job.kind_of, frozenset(message.ready for message in messages))
    loading = None if job.input is None else job.input.start()
    for step, factor in enumerate(factors):
        if loading is not None:
            records.input[step] = walk.load(loading)
        walk.begin(factor)
        busy = _communicate(job, messages, walk)
        walk.to(len(positions) - 1)
        walk.spend(sum((message.decode for message in messages), start=np.zeros(positions.shape[1])))
        records.compute[step] = factor * whole
        records.straggler_wait[step] = walk.straggler
        records.exposed_comm[step] = walk.exposed
        records.encode[step] = walk.coding
        records.overlapped_comm[step] = np.maximum(busy - walk.exposed, 0.0)
        walk.end(factor * job.updates)
        progress(step + 1)
    return records


def _communicate(job: Job, messages: tuple[Message, ...], walk: _Walk) -> float:
    """Send the messages of one step one after the other; returns how many seconds the network was busy with them.

    A worker encodes a message when it is ready, which holds up what it computes next; it decodes all of them before its optimiser.
    """
    busy = 0.0
    for message in messages:
        there = walk.reached(message.ready)
        if message.encode.any():
            walk.spend(message.encode)
            there = np.maximum(there + message.encode[job.kind_of], walk.time)
        for nbytes in message.stages:
            starts = np.maximum(there, walk.free)
            walk.free = job.collectives[message.collective].finish(starts, nbytes).finishes
            busy += float(walk.free.max() - starts.max())
        walk.wait_for(walk.free, message.needed)
    return busy


class _Walk:
    """All workers on their way through a step: where they are, since when, what they wait for and what they have waited for.

    ``free`` is when each worker's communication is through with what it has been given.
    """

    def __init__(self, positions: FloatArray, kind_of: IntArray, marks: frozenset[int]) -> None:
        self.positions = positions
        self.kind_of = kind_of
        self.time = self.free = np.zeros(len(kind_of))
        self._marks = marks
        self._awaited: dict[int, FloatArray] = {}
        self._reached: dict[int, FloatArray] = {}

    def load(self, loading: Loading) -> FloatArray:
        """Wait for the next batch; returns how many seconds each worker waits."""
        before, self.time = self.time, loading.take(self.time)
        return self.time - before

    def begin(self, factor: FloatArray) -> None:
        """Start a step in which each worker's compute time is multiplied by ``factor``."""
        self._factor = factor
        self._at = 0
        self._reached.clear()
        self.exposed = np.zeros_like(self.time)
        self.straggler = np.zeros_like(self.time)
        self.coding = np.zeros_like(self.time)
        self._arrive(0)

    def end(self, update: FloatArray) -> None:
        """The optimiser's step; what is awaited later than that is awaited in the next step."""
        self.time = self.time + update
        self._awaited = {where - len(self.positions): ends for where, ends in self._awaited.items()}

    def spend(self, seconds: FloatArray) -> None:
        """Encode or decode: ``seconds`` on each kind of GPU, at whatever speed its computing goes."""
        self.time = self.time + seconds[self.kind_of]
        self.coding = self.coding + seconds[self.kind_of]

    def reached(self, position: int) -> FloatArray:
        """When each worker has computed up to ``position``, one of the marks."""
        if position not in self._reached:
            self.to(position)
        return self._reached[position]

    def to(self, position: int) -> None:
        """Compute up to ``position``, waiting on the way for what is needed there."""
        for stop in sorted({*(where for where in (*self._awaited, *self._marks) if self._at < where < position), position}):
            self.time = self.time + self._factor * (self.positions[stop] - self.positions[self._at])[self.kind_of]
            self._at = stop
            self._arrive(stop)

    def wait_for(self, ends: FloatArray, position: int) -> None:
        """Let nothing past ``position`` start before ``ends`` (s, a vector over workers)."""
        if position == self._at:
            self._wait(ends)
        else:
            self._awaited[position] = np.maximum(self._awaited.get(position, ends), ends)

    def _arrive(self, position: int) -> None:
        if position in self._marks:
            self._reached[position] = self.time
        if position in self._awaited:
            self._wait(self._awaited.pop(position))

    def _wait(self, ends: FloatArray) -> None:
        """Until the last worker has come here, waiting is its fault; what comes after that is the network's."""
        waits = np.maximum(ends - self.time, 0.0)
        for_others = np.minimum(self.time.max() - self.time, waits)
        self.straggler = self.straggler + for_others
        self.exposed = self.exposed + (waits - for_others)
        self.time = self.time + waits
