"""All workers of a job, each with one process per stream, for computing and communicating."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING

import numpy as np
import simpy

from dpsim.base.arrays import FloatArray, covered_seconds
from dpsim.engine.clocks import waiting
from dpsim.engine.events.contention import communicators
from dpsim.engine.events.itinerary import (
    Act,
    Code,
    Compute,
    Itinerary,
    Mark,
    Planner,
    Submit,
    Wait,
)
from dpsim.engine.events.running_collectives import RunningCollective
from dpsim.engine.events.sending import Sending, Span
from dpsim.engine.events.simulated_collectives import SimulatedCollectives
from dpsim.engine.job import Job
from dpsim.engine.steps import Steps
from dpsim.engine.vector_engine import log_versions
from dpsim.strategy.aggregation import Group

if TYPE_CHECKING:
    from dpsim.engine.log import Log
    from dpsim.engine.timeline import Timeline

Process = Generator[simpy.Event, None, None]


def run_events(
    job: Job,
    factors: FloatArray,
    progress: Callable[[int], None],
    timeline: Timeline | None = None,
    log: Log | None = None,
) -> Steps:
    """Simulate one step per row of ``factors``, (steps, workers), worker by worker.

    Gives the same result as `dpsim.engine.vector_engine.run_vector`, the fast equivalent. Raises
    DpsimError if a cut link stops a transfer forever.
    """
    return World(job, factors, progress, timeline, log).run()


class _Waits:
    """When each worker began and ended each wait of a step (s).

    ``among``: how many workers each wait synchronises.
    """

    def __init__(self, among: list[int], workers: int) -> None:
        self.among = among
        self.begins, self.ends = np.zeros((2, len(among), workers))
        self.unfinished = workers  # that have not ended the step


class World:
    """A run of ``job`` with ``factors`` on compute times, (steps, workers)."""

    def __init__(
        self,
        job: Job,
        factors: FloatArray,
        progress: Callable[[int], None],
        timeline: Timeline | None,
        log: Log | None,
    ) -> None:
        self.job = job
        self.timeline = timeline
        self.log = log
        self.gate = job.gate()
        self.steps, self.workers = factors.shape
        self.positions = job.positions.T.tolist()
        self.records = Steps.empty(*factors.shape)
        self.factors = factors
        self._progress = progress
        self._collectives = SimulatedCollectives(job)
        self.communicators = communicators(job)
        self._planner = Planner(job)
        self._planned: dict[int, Itinerary] = {}
        self._next_step = 0  # the first step that is not planned yet
        self._waits: dict[int, _Waits] = {}
        self._sent: dict[tuple[Group, int], Sending] = {}
        self._open: dict[tuple[Sending, int, int], RunningCollective] = {}
        self._spans: list[tuple[list[Span], list[Span]]] = []  # of each step's gradients and models
        self._starts, self._done, self._ends = np.zeros((3, *factors.shape))
        self._running = 0

    @property
    def env(self) -> simpy.Environment:
        """The simulation clock."""
        return self._collectives.shared_links.env

    def run(self) -> Steps:
        """Run all workers to their end and return the record of their steps."""
        for rank in range(self.workers):
            worker = Worker(rank, self)
            communicating = (worker.communicate(group) for group in self.communicators)
            for stream in (worker.compute(), *communicating):
                self._running += 1
                self.env.process(stream).callbacks.append(self._end)
        shared = self._collectives.shared_links.shared
        # Not until the event queue is empty, because background flows never end.
        with shared.events() as next_event:
            while self._running:
                next_event()
        return self._records()

    def _end(self, _: simpy.Event) -> None:
        self._running -= 1

    def itinerary(self, step: int) -> Itinerary:
        """Return the itinerary that all workers follow in ``step``."""
        while self._next_step <= step:
            self._plan()
        planned = self._planned[step]
        if step not in self._waits:
            self._waits[step] = _Waits(planned.among, self.workers)
        return planned

    def sending(self, group: Group, number: int) -> Sending | None:
        """Return the ``number``-th call of a communicator, or None after the last."""
        # A stream asks for its next call as soon as it has finished one, and the next one may be in
        # a step that no worker has begun.
        while (group, number) not in self._sent and self._next_step < self.steps:
            self._plan()
        return self._sent.get((group, number))

    def _plan(self) -> None:
        planned = self._planner.plan(self._next_step)
        self._planned[self._next_step] = planned
        self._next_step += 1
        gradients, models = planned.sent[: planned.gradients], planned.sent[planned.gradients :]
        self._spans.append((_spans_of(gradients), _spans_of(models)))
        self._sent |= {(each.call.group, each.number): each for each in planned.sent}

    def join(self, sending: Sending, stage: int, rank: int) -> simpy.Event:
        """Let ``rank`` enter a collective; the returned event is triggered when it leaves."""
        name, nbytes = sending.call.stages[stage]
        collective = self._collectives.get(name, nbytes, sending.step)
        group = collective.group_of[rank]
        key = sending, stage, group
        running = self._open.get(key)
        if running is None:
            running = self._open[key] = collective.open(group, sending.spans[stage])
        event = running.join(rank)
        if not running.missing:
            del self._open[key]
        return event

    def finished(self, sending: Sending) -> None:
        """Record that one more worker's stream has finished ``sending``."""
        sending.unfinished -= 1
        if not sending.unfinished:
            del self._sent[sending.call.group, sending.number]

    def mark(self, worker: Worker, *, begins: bool) -> None:
        """Record that ``worker`` begins to compute its step, or has its gradient."""
        kept = self._starts if begins else self._done
        kept[worker.step, worker.rank] = self.env.now

    def waited(self, worker: Worker, number: int, begin: float) -> None:
        """Record that ``worker`` has waited since ``begin`` (s) and now continues."""
        waits = self._waits[worker.step]
        waits.begins[number, worker.rank] = begin
        waits.ends[number, worker.rank] = self.env.now

    def ended(self, worker: Worker) -> None:
        """Record that ``worker`` has ended its step; after the last one, attribute all waits."""
        step, rank = worker.step, worker.rank
        self._ends[step, rank] = self.env.now
        self.records.encode[step, rank] = worker.coding
        waits = self._waits[step]
        waits.unfinished -= 1
        if waits.unfinished:
            return
        del self._waits[step], self._planned[step]
        # What a worker waited for depends on when the others began to wait.
        for begins, ends, among in zip(waits.begins, waits.ends, waits.among, strict=True):
            for_others, exposed = waiting(self.gate, begins, ends, among)
            self.records.straggler_wait[step] += for_others
            self.records.exposed_comm[step] += exposed
        self._progress(step + 1)

    def _records(self) -> Steps:
        """Return all steps, with what can be computed only after the last."""
        records, job = self.records, self.job
        records.compute[:] = self.factors * job.positions[-1][job.kind_of]
        rounds = []
        for step, (gradients, models) in enumerate(self._spans):
            spans = [(span.last_start, span.last_end) for span in (*gradients, *models)]
            busy = covered_seconds(spans)
            records.overlapped_comm[step] = np.maximum(busy - records.exposed_comm[step], 0.0)
            # For each step, the last collective of its gradients and the last of its models.
            rounds += [
                (part[-1].last_start, part[-1].last_end) for part in (gradients, models) if part
            ]
        ends = self._ends.max(axis=1)
        common = rounds if job.one_version else []
        stalenesses = self.gate.stalenesses(self._starts, self._done, common)
        records.clock_gap[:], records.versions[:] = stalenesses
        if self.log is not None:
            log_versions(self.log, job, rounds, self._starts, self._done, ends)
        return records


def _spans_of(sent: list[Sending]) -> list[Span]:
    return [span for each in sent for span in each.spans]


class Worker:
    """The worker ``rank``: its position in the step and the progress of its communication."""

    def __init__(self, rank: int, world: World) -> None:
        self.rank = rank
        self.world = world
        self.env = world.env
        self.step = 0
        self.coding = 0.0
        # By communicator: how many calls its stream has finished, and the number and event of the
        # call that its compute stream waits for.
        self._received: dict[Group, int] = dict.fromkeys(world.communicators, 0)
        self._awaits: dict[Group, tuple[int, simpy.Event]] = {}
        job = world.job
        self._kind = int(job.kind_of[rank])
        self._positions = world.positions[self._kind]
        self._factor = 1.0
        self._loading = None if job.input is None else job.input.of(rank).start()

    def compute(self) -> Process:
        """Run the worker's compute stream."""
        world = self.world
        for self.step in range(world.steps):
            self.coding, self._factor = 0.0, float(world.factors[self.step, self.rank])
            if self._loading is not None:
                yield from self._load()
            for act in world.itinerary(self.step).acts:
                match act:
                    case Wait(until, number):
                        yield from self._wait(until, number)
                    case _ if (seconds := self._do(act)) > 0:
                        yield self.env.timeout(seconds)
            world.ended(self)

    def communicate(self, group: Group) -> Process:
        """Run a communication stream: the calls of a communicator, in the plan's order."""
        world, env = self.world, self.env
        while (sending := world.sending(group, self._received[group])) is not None:
            may_begin = sending.may_begin(self.rank, env)
            if may_begin is not None:
                yield may_begin
            for number in range(len(sending.call.stages)):
                begin = env.now
                yield world.join(sending, number, self.rank)
                if world.timeline is not None:
                    name = f"{sending.call.name}: {sending.call.stages[number][0]}"
                    self._note(sending.step, "communication", name, begin, env.now)
            self._received[group] += 1
            world.finished(sending)
            if sending.then is not None:
                sending.then.submit(self.rank, world.workers)
            if group in self._awaits and self._awaits[group][0] == sending.number:
                self._awaits.pop(group)[1].succeed()

    def _load(self) -> Process:
        """Wait for the next batch."""
        assert self._loading is not None
        begin = self.env.now
        end = float(self._loading.take(np.array([begin]))[0])
        self.world.records.input[self.step, self.rank] = end - begin
        self._note(self.step, "input", "next batch", begin, end)
        if end > begin:
            yield self.env.timeout(end - begin)

    def _do(self, act: Act) -> float:
        """Do one act that waits for no other worker; return its time (s)."""
        match act:
            case Compute(begin, stop):
                return self._pass(begin, stop)
            case Submit(sent):
                for each in sent:
                    each.submit(self.rank, self.world.gate.quorum)
            case Code(name, seconds):
                return self._code(name, float(seconds[self._kind]))
            case Mark(begins):
                self.world.mark(self, begins=begins)
        return 0.0

    def _pass(self, begin: int, stop: int) -> float:
        """Return the seconds of computing from one position to another."""
        if self.world.timeline is not None:
            since = now = self.env.now
            program = self.world.job.program
            for end in program.turns_between(begin, stop):
                until = now + self._computing(begin, end)
                self._note(self.step, "compute", program.name_of(end), since, until)
                since = until
        return self._computing(begin, stop)

    def _computing(self, begin: int, stop: int) -> float:
        seconds: float = self._positions[stop] - self._positions[begin]
        return self._factor * seconds

    def _code(self, name: str, seconds: float) -> float:
        """Encode or decode, which takes ``seconds``, and return them."""
        self.coding += seconds
        if seconds > 0:
            self._note(self.step, "compute", name, self.env.now, self.env.now + seconds)
        return seconds

    def _wait(self, until: tuple[Sending, ...], number: int) -> Process:
        """Wait until the worker's communication streams have finished ``until``."""
        begin = self.env.now
        for sending in until:
            group = sending.call.group
            # Calls are numbered from 0: the stream has finished those below ``received``.
            if self._received[group] <= sending.number:
                arrived = self.env.event()
                self._awaits[group] = sending.number, arrived
                yield arrived
        self.world.waited(self, number, begin)

    def _note(self, step: int, stream: str, name: str, start: float, end: float) -> None:
        """Keep an interval for the timeline, if there is one."""
        if self.world.timeline is not None:
            self.world.timeline.add_one(step, self.rank, stream, name, start, end)
