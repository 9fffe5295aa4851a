"""A step as the sequence of acts of a worker's compute stream, the same for all workers.

Positions are those of `dpsim.workload.Program`. At a position a worker first submits the calls that
are ready there, and then waits for the calls that are needed there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from itertools import pairwise

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.engine.calls import StagedCall
from dpsim.engine.events.sending import Sending
from dpsim.engine.job import Job
from dpsim.strategy.aggregation import Group


@dataclass(frozen=True, slots=True)
class Compute:
    """Compute from one position to another."""

    begin: int
    stop: int


@dataclass(frozen=True, slots=True)
class Submit:
    """Submit these calls to the communication stream."""

    sent: tuple[Sending, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """Encode or decode for ``seconds`` on each kind of GPU."""

    name: str
    seconds: FloatArray


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until the worker's streams finish ``until``; the wait has number ``number``."""

    until: tuple[Sending, ...]
    number: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Record the time when computing ``begins``, or when the gradient is complete."""

    begins: bool = False


Act = Compute | Submit | Code | Wait | Mark


@dataclass(slots=True)
class Itinerary:
    """The acts of a step, its calls in the order sent, and its waits.

    The first ``gradients`` of ``sent`` carry gradients; ``among`` has for each wait the number of
    workers that it synchronises.
    """

    sent: list[Sending]
    gradients: int
    acts: list[Act] = field(default_factory=list)
    among: list[int] = field(default_factory=list)


class Planner:
    """Plan a job's steps in order, because a step may wait for calls of an earlier one.

    ``_at`` is the compute stream's position in the step that is being planned.
    """

    def __init__(self, job: Job) -> None:
        self.job = job
        self.program = job.program
        self._lag = job.gate().lag
        self._group = job.scenario.strategy.sync.group_size(job.cluster.mesh)
        self._needed: dict[int, dict[Group, Sending]] = {}  # by position in the planned step
        self._due: dict[int, FloatArray] = {}  # decoding time (s), by position
        self._sent: Counter[Group] = Counter()

    def plan(self, step: int) -> Itinerary:
        """Return the itinerary of the next step, which is ``step``."""
        program, sent = self.program, [self._sending(step, call) for call in self.job.calls(step)]
        for before, after in pairwise(sent):
            if after.call.follows:
                before.then = after
        # Calls are in order: those ready before the update come first, then models and fragments.
        number = sum(each.call.ready < program.updated for each in sent)
        gradients, models = sent[:number], sent[number:]
        self._planned = Itinerary(sent, number)
        # Calls without encoding are submitted when they are ready, others when they are encoded; a
        # call that follows another is submitted by it.
        self._unencoded: dict[int, list[Sending]] = defaultdict(list)
        for each in sent:
            if not (each.call.follows or each.call.encode.any()):
                self._unencoded[each.call.ready].append(each)
        self._last = gradients[-1].call.ready if gradients else None

        self._at = 0
        self._arrive(0)
        self._add(Mark(begins=True))
        self._send(gradients)
        self._advance_to(program.end)
        if self._last is None:
            self._add(Mark())
        self._decode(gradients)
        self._advance_to(program.updated)
        self._send(models)
        self._decode(models)
        # Calls needed at the end of a step are needed at the start of the next one.
        length = program.updated
        self._needed = {position - length: last for position, last in self._needed.items()}
        self._due = {position - length: seconds for position, seconds in self._due.items()}
        return self._planned

    def _sending(self, step: int, call: StagedCall) -> Sending:
        number = self._sent[call.group]
        self._sent[call.group] += 1
        return Sending(number, step, call, self.job.workers)

    def _send(self, sent: list[Sending]) -> None:
        for each in sent:
            call = each.call
            self._advance_to(call.ready)
            if call.encode.any():
                self._add(Code(f"encode {call.name}", call.encode))
                self._add(Submit((each,)))
            if not call.awaited:
                continue
            # Workers and calls may lag: such a call is needed in a later step.
            needed = call.needed + (self._lag + call.lag) * self.program.updated
            if needed == self._at:
                self._wait((each,))
            else:
                # Streams run calls in order, so waiting for the last one is enough.
                self._needed.setdefault(needed, {})[call.group] = each
            if call.lag:
                position = call.needed + call.lag * self.program.updated
                self._due[position] = self._due.get(position, 0.0) + call.decode

    def _decode(self, sent: list[Sending]) -> None:
        """Decode the calls without a lag of their own; others are decoded when they are due."""
        arrived = (each.call.decode for each in sent if not each.call.lag)
        self._code_for(sum(arrived, start=np.zeros(1)))

    def _code_for(self, seconds: FloatArray) -> None:
        if seconds.any():
            self._add(Code("decode", seconds))

    def _advance_to(self, position: int) -> None:
        """Compute up to ``position``, and handle calls that are ready or needed on the way."""
        marks = [] if self._last is None else [self._last]
        stops = {*self._unencoded, *self._needed, *marks, position}
        for stop in sorted(stop for stop in stops if stop <= position):
            if stop > self._at:
                self._add(Compute(self._at, stop))
                self._at = stop
                self._arrive(stop)

    def _arrive(self, position: int) -> None:
        if position == self._last:
            self._add(Mark())
        if position in self._unencoded:
            self._add(Submit(tuple(self._unencoded.pop(position))))
        if position < self.program.updated and position in self._needed:
            self._wait(tuple(self._needed.pop(position).values()))
            if position in self._due:
                self._code_for(self._due.pop(position))

    def _wait(self, until: tuple[Sending, ...]) -> None:
        among = self._planned.among
        self._add(Wait(until, len(among)))
        workers, groups = self.job.workers, {each.call.group for each in until}
        among.append(self._group if groups == {"group"} else workers)

    def _add(self, act: Act) -> None:
        self._planned.acts.append(act)
