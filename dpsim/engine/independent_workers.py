"""Workers that run asynchronously, each at its own pace.

Each worker is a SimPy process; its transfers are flows on one shared network. In each step it waits
for input, computes, hands over its result, waits until it may continue, and fetches the parameters
for the next step. A worker that has finished its steps continues, to keep the load on the others,
until all have finished or it has done `MOST_ROUNDS` times as many.
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
# How many times its own steps a worker runs at most while it waits for slower ones.
MOST_ROUNDS = 8


class Coordinator(ABC):
    """The exchange between asynchronous workers, through servers or in pairs.

    Workers hand over their results and fetch the parameters with which they continue.
    """

    network: SharedNetwork
    gate: Gate

    def begin(self, worker: Worker) -> None:
        """Start a step: ``worker`` begins to compute on the parameters that it has fetched."""
        return  # nothing to do, unless a kind overrides it

    @abstractmethod
    def ready(self, worker: Worker, call: StagedCall) -> None:
        """Take ``call``, which ``worker`` has computed and encoded; the worker keeps computing."""

    @abstractmethod
    def end(self, worker: Worker) -> Process:
        """Finish a step of ``worker``: hand over its result, wait, and fetch."""

    def leave(self, worker: Worker) -> None:
        """Remove ``worker``, which takes no further step, so that no other worker waits for it."""
        self.gate.leave(worker.rank)


class Worker:
    """The worker ``rank``: its current iteration and the parts of that iteration's time."""

    def __init__(self, rank: int, world: World) -> None:
        self.rank = rank
        self.world = world
        self.env = world.coordinator.network.env
        self.iteration = 0
        self.version = 0
        self.row = dict.fromkeys(
            ("compute", "exposed_comm", "straggler_wait", "input", "encode"), 0.0
        )
        self.busy = 0.0
        self.stale = 0
        self._loading = None if world.job.input is None else world.job.input.of(rank).start()

    def work(self) -> Process:
        """Run iterations until all workers have finished theirs."""
        # Continue past its own steps until all workers have finished: the slowest ones must face
        # the others' traffic and versions up to their last step.
        for self.iteration in count():
            # Otherwise an extremely slow worker would keep the others running.
            if self.iteration >= self.world.steps * MOST_ROUNDS:
                self.world.coordinator.leave(self)
                return
            self.row, self.busy = dict.fromkeys(self.row, 0.0), 0.0
            if self._loading is not None:
                loaded = float(self._loading.take(np.array([self.env.now]))[0])
                yield from self.spend("input", loaded - self.env.now, "next batch")
            self.world.begins(self)
            yield from self._compute()
            yield from self.world.coordinator.end(self)
            self.world.ended(self)

    def _compute(self) -> Process:
        """Run all passes, and give each call to the coordinator when it is ready."""
        positions = self.world.positions[self.rank]
        factor = self.world.factor(self)
        at = 0
        for call in self.world.calls:
            yield from self._passes(factor, at, call.ready)
            at = call.ready
            encoding = self.world.coding(self.rank, call.encode)
            yield from self.spend("encode", encoding, f"encode {call.name}")
            self.world.coordinator.ready(self, call)
        # Without the update, which parameter servers may apply instead.
        yield from self._passes(factor, at, len(positions) - 2)

    def _passes(self, factor: float, begin: int, stop: int) -> Process:
        """Compute from one position to another; only the timeline is split into passes."""
        positions, now = self.world.positions[self.rank], self.env.now
        seconds = factor * (positions[stop] - positions[begin])
        if seconds <= 0:
            return
        if self.world.timeline is not None:
            program, since = self.world.job.program, now
            for end in program.turns_between(begin, stop):
                # Counted from the start, not from the previous mark, so that the last end equals
                # the clock.
                until = now + factor * (positions[end] - positions[begin])
                self.note("compute", program.name_of(end), since, until)
                since = until
        self.row["compute"] += seconds
        yield self.env.timeout(seconds)

    def update(self) -> Process:
        """Run the optimiser's step on the worker."""
        positions = self.world.positions[self.rank]
        seconds = self.world.factor(self) * (positions[-1] - positions[-2])
        yield from self.spend("compute", seconds, "update")

    def decode(self) -> Process:
        """Decode the fetched parameters."""
        seconds = sum(self.world.coding(self.rank, call.decode) for call in self.world.calls)
        yield from self.spend("encode", seconds, "decode")

    def spend(self, part: str, seconds: float, name: str) -> Process:
        """Let ``seconds`` pass, counted as ``part`` of the step."""
        if seconds <= 0:
            return
        stream = "input" if part == "input" else "compute"
        self.note(stream, name, self.env.now, self.env.now + seconds)
        self.row[part] += seconds
        yield self.env.timeout(seconds)

    def wait(self, part: str, event: simpy.Event) -> Process:
        """Wait for ``event`` and count the time as ``part`` of the step."""
        begin = self.env.now
        yield event
        self.row[part] += self.env.now - begin

    def communicated(self, name: str, begin: float) -> None:
        """Record the transfer ``name``, which began at ``begin`` and has just ended."""
        self.busy += self.env.now - begin
        self.note("communication", name, begin, self.env.now)

    def note(self, stream: str, name: str, start: float, end: float) -> None:
        """Add an interval to the timeline, if there is one."""
        timeline = self.world.timeline
        if timeline is not None:
            timeline.add_one(self.iteration, self.rank, stream, name, start, end)


class World:
    """All workers of a job and the record of their steps.

    ``factors`` on compute times, (steps, workers), have a row for each iteration that counts.
    ``progress`` is called with the mean number of iterations done.
    """

    def __init__(
        self,
        job: Job,
        coordinator: Coordinator,
        factors: FloatArray,
        progress: Callable[[int], None],
        timeline: Timeline | None = None,
        log: Log | None = None,
    ) -> None:
        self.job = job
        self.coordinator = coordinator
        self.timeline = timeline
        self.log = log
        # An asynchronous worker sends the same in every iteration.
        self.calls = job.calls(0)
        # Lists, because reading single numbers from arrays is slow.
        self.positions = job.positions[:, job.kind_of].T.tolist()
        self.records = Steps.empty(*factors.shape)
        self.finished = False
        self._factors = factors
        self._kind_of = job.kind_of.tolist()
        self.steps, self._workers = factors.shape
        self._progress = progress
        self._done = 0

    def run(self) -> Steps:
        """Run until every worker has finished its steps, and return the record.

        Raises DpsimError if a cut link stops a transfer forever.
        """
        network = self.coordinator.network
        for rank in range(self._workers):
            network.env.process(Worker(rank, self).work())
        with network.events() as next_event:
            while not self.finished:
                next_event()
        return self.records

    def factor(self, worker: Worker) -> float:
        """Return the factor on the worker's compute time.

        Factors are drawn for the steps that count; a worker that continues past them reuses them.
        """
        return float(self._factors[worker.iteration % self.steps, worker.rank])

    def coding(self, rank: int, seconds: FloatArray) -> float:
        """Return the seconds of encoding or decoding on the GPU of ``rank``."""
        return float(seconds[self._kind_of[rank]])

    def begins(self, worker: Worker) -> None:
        """Record that a worker begins to compute, and its lead over the slowest worker."""
        self.coordinator.begin(worker)
        if self.log is not None:
            self.log.add(worker.env.now, "read", worker.rank, worker.iteration, worker.version)
        if worker.iteration < self.steps:
            ahead = worker.iteration - self.coordinator.gate.clocks.slowest
            self.records.clock_gap[worker.iteration, worker.rank] = ahead

    def hand_over(self, worker: Worker) -> None:
        """Give the worker's gradient to the gate, and log the outcome."""
        gate = self.coordinator.gate
        outcome = gate.hand_over(worker.rank)
        if self.log is None:
            return
        now, update = worker.env.now, gate.update_of(worker.rank)
        self.log.add(now, "gave", worker.rank, worker.iteration, update)
        if outcome is GradientOutcome.APPLIED:
            # An applied update makes a version, available from now on.
            self.log.times.append(now)

    def ended(self, worker: Worker) -> None:
        """Record the worker's finished iteration, if it counts."""
        if worker.iteration >= self.steps:
            return
        place = worker.iteration, worker.rank
        for part, seconds in worker.row.items():
            getattr(self.records, part)[place] = seconds
        self.records.overlapped_comm[place] = max(worker.busy - worker.row["exposed_comm"], 0.0)
        self.records.versions[place] = worker.stale
        self._done += 1
        self._progress(self._done // self._workers)
        self.finished = self._done == self.steps * self._workers
