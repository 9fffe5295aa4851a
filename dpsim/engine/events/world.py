"""All workers of a job, what they share, and what is recorded of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import simpy

from dpsim.base.arrays import FloatArray
from dpsim.engine.events.contention import communicators
from dpsim.engine.events.itinerary import Itinerary, Planner
from dpsim.engine.events.lines import Lines
from dpsim.engine.events.running_collectives import RunningCollective
from dpsim.engine.events.sending import Sending, Span
from dpsim.engine.events.worker import Worker
from dpsim.engine.job import Job
from dpsim.engine.steps import Steps, seconds_covered
from dpsim.engine.together import keep_versions
from dpsim.engine.walk import waiting
from dpsim.strategy.aggregation import Group

if TYPE_CHECKING:
    from dpsim.engine.log import Log
    from dpsim.engine.timeline import Timeline


def run_events(
    job: Job,
    factors: FloatArray,
    progress: Callable[[int], None],
    timeline: Timeline | None = None,
    log: Log | None = None,
) -> Steps:
    """Simulate one step per row of ``factors``, (steps, workers), worker by worker.

    The answer is that of `dpsim.engine.together.run_together`, which is a short cut to it. Raises
    DpsimError where a cut link stops a transfer for good.
    """
    return World(job, factors, progress, timeline, log).run()


class _Waits:
    """What a step's waits were: when each worker came to each, and when it went on (s).

    Each wait is ``among`` so many neighbours.
    """

    def __init__(self, among: list[int], workers: int) -> None:
        self.among = among
        self.there, self.ends = np.zeros((2, len(among), workers))
        self.left = workers  # who has not ended the step


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
        self._factors = factors
        self._progress = progress
        self._lines = Lines(job)
        self.communicators = communicators(job)
        self._planner = Planner(job)
        self._planned: dict[int, Itinerary] = {}
        self._next = 0  # the first step that is not planned yet
        self._waits: dict[int, _Waits] = {}
        self._sent: dict[tuple[Group, int], Sending] = {}
        self._open: dict[tuple[Sending, int, int], RunningCollective] = {}
        self._spans: list[tuple[list[Span], list[Span]]] = []  # of each step's gradients and models
        self._starts, self._done, self._over = np.zeros((3, *factors.shape))
        self._living = 0

    @property
    def env(self) -> simpy.Environment:
        """The clock."""
        return self._lines.shared_links.env

    def run(self) -> Steps:
        """Let all workers live."""
        for rank in range(self.workers):
            worker = Worker(rank, self)
            communicating = (worker.communicate(group) for group in self.communicators)
            for stream in (worker.compute(), *communicating):
                self._living += 1
                self.env.process(stream).callbacks.append(self._end)
        shared = self._lines.shared_links.shared
        # Not until nothing is left to happen: background flows never end.
        with shared.events() as happen:
            while self._living:
                happen()
        return self._records()

    def _end(self, _: simpy.Event) -> None:
        self._living -= 1

    def factor(self, step: int, rank: int) -> float:
        """What multiplies the compute time of ``rank`` in a step."""
        return float(self._factors[step, rank])

    def itinerary(self, step: int) -> Itinerary:
        """What all workers do in ``step``."""
        while self._next <= step:
            self._plan()
        planned = self._planned[step]
        if step not in self._waits:
            self._waits[step] = _Waits(planned.among, self.workers)
        return planned

    def sending(self, group: Group, number: int) -> Sending | None:
        """The ``number``-th call of a communicator; None after the last."""
        # A stream asks for its next call as soon as it is through with one, and that may be of a
        # step which nobody has begun.
        while (group, number) not in self._sent and self._next < self.steps:
            self._plan()
        return self._sent.get((group, number))

    def _plan(self) -> None:
        planned = self._planner.plan(self._next)
        self._planned[self._next] = planned
        self._next += 1
        gradients, models = planned.sent[: planned.gradients], planned.sent[planned.gradients :]
        self._spans.append((_spans_of(gradients), _spans_of(models)))
        self._sent |= {(each.call.group, each.number): each for each in planned.sent}

    def join(self, sending: Sending, stage: int, rank: int) -> simpy.Event:
        """``rank`` enters a collective; what comes back happens when it leaves."""
        name, nbytes = sending.call.stages[stage]
        line = self._lines.line(name, nbytes, sending.step)
        group = line.group_of[rank]
        key = sending, stage, group
        running = self._open.get(key)
        if running is None:
            running = self._open[key] = line.open(group, sending.spans[stage])
        event = running.join(rank)
        if not running.missing:
            del self._open[key]
        return event

    def through(self, sending: Sending) -> None:
        """Another worker's stream is through with ``sending``."""
        sending.left -= 1
        if not sending.left:
            del self._sent[sending.call.group, sending.number]

    def mark(self, worker: Worker, *, begins: bool) -> None:
        """``worker`` begins to compute its step, or has its gradient."""
        kept = self._starts if begins else self._done
        kept[worker.step, worker.rank] = self.env.now

    def waited(self, worker: Worker, number: int, there: float) -> None:
        """``worker``, which came to a wait at ``there`` (s), goes on."""
        waits = self._waits[worker.step]
        waits.there[number, worker.rank] = there
        waits.ends[number, worker.rank] = self.env.now

    def ended(self, worker: Worker) -> None:
        """``worker`` has ended its step; with the last one, where its time went is known."""
        step, rank = worker.step, worker.rank
        self._over[step, rank] = self.env.now
        self.records.encode[step, rank] = worker.coding
        waits = self._waits[step]
        waits.left -= 1
        if waits.left:
            return
        del self._waits[step], self._planned[step]
        # Whose fault a wait was depends on when the others came to it, and so is known only now.
        for there, ends, among in zip(waits.there, waits.ends, waits.among, strict=True):
            for_others, exposed = waiting(self.gate, there, ends, among)
            self.records.straggler_wait[step] += for_others
            self.records.exposed_comm[step] += exposed
        self._progress(step + 1)

    def _records(self) -> Steps:
        """All steps, with what is known when everything has ended."""
        records, job = self.records, self.job
        records.compute[:] = self._factors * job.positions[-1][job.kind_of]
        rounds = []
        for step, (gradients, models) in enumerate(self._spans):
            spans = [(span.last_start, span.last_end) for span in (*gradients, *models)]
            busy = seconds_covered(spans)
            records.overlapped_comm[step] = np.maximum(busy - records.exposed_comm[step], 0.0)
            # Of a step the last collective of its gradients, and of its models.
            rounds += [(of[-1].last_start, of[-1].last_end) for of in (gradients, models) if of]
        over = self._over.max(axis=1)
        common = rounds if job.one_version else []
        stalenesses = self.gate.stalenesses(self._starts, self._done, common)
        records.clock_gap[:], records.versions[:] = stalenesses
        if self.log is not None:
            keep_versions(self.log, job, rounds, self._starts, self._done, over)
        return records


def _spans_of(sent: list[Sending]) -> list[Span]:
    return [span for each in sent for span in each.spans]
