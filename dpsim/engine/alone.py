"""Workers that act alone.

Each is a SimPy process of its own, and what they send are flows that share one network.

A worker that has done its steps goes on, so that the load on the others stays, until all have done
theirs (or it has done `MOST_ROUNDS` times as many). Its row of a step: wait for input, compute,
hand over what it computed, wait until it may go on, and fetch what it goes on with.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator
from itertools import count

import numpy as np
import simpy

from dpsim.base.arrays import FloatArray
from dpsim.engine.calls import StagedCall
from dpsim.engine.job import Job
from dpsim.engine.log import Log
from dpsim.engine.steps import Steps
from dpsim.engine.timeline import Timeline
from dpsim.network import SharedNetwork
from dpsim.strategy.sync import Gate, GradientOutcome

Process = Generator[simpy.Event, None, None]
# A bound, since one worker that is a thousand times slower would keep all others at work till then.
MOST_ROUNDS = 8


class MeetingPoint(ABC):
    """What workers that act alone share.

    They hand over what they computed, and fetch what they go on with.
    """

    network: SharedNetwork
    gate: Gate

    @abstractmethod
    def begin(self, worker: Worker) -> None:
        """``worker`` begins to compute on what it has fetched."""

    @abstractmethod
    def ready(self, worker: Worker, call: StagedCall) -> None:
        """``worker`` has computed (and encoded) ``call`` and goes on computing."""

    @abstractmethod
    def end(self, worker: Worker) -> Process:
        """``worker`` has computed all of a step: hand it over, wait, fetch."""

    @abstractmethod
    def leave(self, worker: Worker) -> None:
        """``worker`` takes no further step: nobody may wait for it."""


class Worker:
    """The worker ``rank``: the iteration that it is in, and where the seconds of that went."""

    def __init__(self, rank: int, world: World) -> None:
        self.rank = rank
        self.world = world
        self.env = world.meeting_point.network.env
        self.iteration = 0
        self.version = 0
        self.row = dict.fromkeys(
            ("compute", "exposed_comm", "straggler_wait", "input", "encode"), 0.0
        )
        self.busy = 0.0
        self.stale = 0
        self._loading = None if world.job.input is None else world.job.input.of(rank).start()

    def work(self) -> Process:
        """Its iterations, from the first to the last."""
        # On beyond its own steps until all have done theirs: the last ones are to meet the traffic
        # and the versions of the others to their end.
        for self.iteration in count():
            if self.world.is_over(self):
                self.world.meeting_point.leave(self)
                return
            self.row, self.busy = dict.fromkeys(self.row, 0.0), 0.0
            if self._loading is not None:
                there = float(self._loading.take(np.array([self.env.now]))[0])
                yield from self.spend("input", there - self.env.now, "next batch")
            self.world.begins(self)
            yield from self._compute()
            yield from self.world.meeting_point.end(self)
            self.world.ended(self)

    def _compute(self) -> Process:
        """All passes, with what becomes ready on the way."""
        positions = self.world.positions[self.rank]
        factor = self.world.factor(self)
        at = 0
        for call in self.world.calls:
            yield from self._passes(factor, at, call.ready)
            at = call.ready
            encoding = self.world.coding(self.rank, call.encode)
            yield from self.spend("encode", encoding, f"encode {call.name}")
            self.world.meeting_point.ready(self, call)
        # What is left up to the update, which is not the worker's where servers take it.
        yield from self._passes(factor, at, len(positions) - 2)

    def _passes(self, factor: float, begin: int, stop: int) -> Process:
        """Compute from one position to another; passes split what is shown, never the clock."""
        positions, now = self.world.positions[self.rank], self.env.now
        seconds = factor * (positions[stop] - positions[begin])
        if seconds <= 0:
            return
        if self.world.timeline is not None:
            program, since = self.world.job.program, now
            for end in program.turns_between(begin, stop):
                # From the begin, not from the mark before: the last is then the clock's own time.
                until = now + factor * (positions[end] - positions[begin])
                self.note("compute", program.name_of(end), since, until)
                since = until
        self.row["compute"] += seconds
        yield self.env.timeout(seconds)

    def update(self) -> Process:
        """The optimiser's step, where the worker takes it."""
        positions = self.world.positions[self.rank]
        seconds = self.world.factor(self) * (positions[-1] - positions[-2])
        yield from self.spend("compute", seconds, "update")

    def decode(self) -> Process:
        """Decode what has been fetched."""
        seconds = sum(self.world.coding(self.rank, call.decode) for call in self.world.calls)
        yield from self.spend("encode", seconds, "decode")

    def spend(self, part: str, seconds: float, name: str) -> Process:
        """Let ``seconds`` pass, as a part of the step."""
        if seconds <= 0:
            return
        stream = "input" if part == "input" else "compute"
        self.note(stream, name, self.env.now, self.env.now + seconds)
        self.row[part] += seconds
        yield self.env.timeout(seconds)

    def wait(self, part: str, event: simpy.Event) -> Process:
        """Wait for ``event``; the time is a part of the step."""
        begin = self.env.now
        yield event
        self.row[part] += self.env.now - begin

    def communicated(self, name: str, begin: float) -> None:
        """Its transfer ``name``, which began at ``begin``, has ended."""
        self.busy += self.env.now - begin
        self.note("communication", name, begin, self.env.now)

    def note(self, stream: str, name: str, start: float, end: float) -> None:
        """Keep an interval for the timeline."""
        timeline = self.world.timeline
        if timeline is not None:
            timeline.add_one(self.iteration, self.rank, stream, name, start, end)


class World:
    """All workers of a job and what is recorded of them.

    ``factors`` on compute times, (steps, workers), have a row for each iteration that counts.
    ``progress`` is called with the mean number of iterations
    done.
    """

    def __init__(
        self,
        job: Job,
        meeting_point: MeetingPoint,
        factors: FloatArray,
        progress: Callable[[int], None],
        timeline: Timeline | None = None,
        log: Log | None = None,
    ) -> None:
        self.job = job
        self.meeting_point = meeting_point
        self.timeline = timeline
        self.log = log
        # Whoever goes its own way sends the same in every iteration.
        self.calls = job.calls(0)
        # Lists: single numbers are read from them all the time, which arrays are slow at.
        self.positions = job.positions[:, job.kind_of].T.tolist()
        self.records = Steps.empty(*factors.shape)
        self.finished = False
        self._factors = factors
        self._kind_of = job.kind_of.tolist()
        self._steps, self._workers = factors.shape
        self._progress = progress
        self._done = 0

    def run(self) -> Steps:
        """Let all workers live until each has done its steps.

        Raises DpsimError where a cut link stops them for good.
        """
        network = self.meeting_point.network
        for rank in range(self._workers):
            network.env.process(Worker(rank, self).work())
        with network.events() as happen:
            while not self.finished:
                happen()
        return self.records

    def factor(self, worker: Worker) -> float:
        """What multiplies its compute time.

        Factors are drawn for the steps that count; a worker that goes on takes them anew.
        """
        return float(self._factors[worker.iteration % self._steps, worker.rank])

    def coding(self, rank: int, seconds: FloatArray) -> float:
        """Seconds of encoding or decoding on its kind of GPU."""
        return float(seconds[self._kind_of[rank]])

    def is_over(self, worker: Worker) -> bool:
        """Whether it need not begin another iteration."""
        # Bounded: beside a worker that is slow out of all proportion the others would never end.
        return bool(worker.iteration >= self._steps * MOST_ROUNDS)

    def begins(self, worker: Worker) -> None:
        """It begins to compute: keep how far it is ahead of the slowest."""
        self.meeting_point.begin(worker)
        if self.log is not None:
            self.log.add(worker.env.now, "read", worker.rank, worker.iteration, worker.version)
        if worker.iteration < self._steps:
            ahead = worker.iteration - self.meeting_point.gate.clocks.slowest
            self.records.clock_gap[worker.iteration, worker.rank] = ahead

    def hand_over(self, worker: Worker) -> None:
        """Its gradient is with the others: tell the gate, and log what becomes of it."""
        gate = self.meeting_point.gate
        outcome = gate.hand_over(worker.rank)
        if self.log is None:
            return
        now, update = worker.env.now, gate.update_of(worker.rank)
        self.log.add(now, "gave", worker.rank, worker.iteration, update)
        if outcome is GradientOutcome.APPLIED:
            # An applied update makes a version, which is there from now on.
            self.log.times.append(now)

    def ended(self, worker: Worker) -> None:
        """It has done an iteration: keep what it was, if it counts."""
        if worker.iteration >= self._steps:
            return
        place = worker.iteration, worker.rank
        for part, seconds in worker.row.items():
            getattr(self.records, part)[place] = seconds
        self.records.overlapped_comm[place] = max(worker.busy - worker.row["exposed_comm"], 0.0)
        self.records.versions[place] = worker.stale
        self._done += 1
        self._progress(self._done // self._workers)
        self.finished = self._done == self._steps * self._workers
