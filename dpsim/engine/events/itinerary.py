"""A step as a sequence of acts of a worker's compute stream, the same for all workers.

Its places are the positions of the program (`dpsim.workload.Program`). At a position a worker first
submits the calls that are ready there, and then waits for the calls that are needed there.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
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
    """The acts of step ``step``, its calls in the order sent, and its waits.

    The first ``gradients`` of ``sent`` carry gradients; ``among`` has for each wait the number of
    workers that it synchronises.
    """

    step: int
    acts: list[Act] = field(default_factory=list)
    sent: list[Sending] = field(default_factory=list)
    gradients: int = 0
    among: list[int] = field(default_factory=list)


class Planner:
    """Planner of a job's steps, in order, because a step may wait for calls of an earlier one."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.program = job.program
        self._lag = job.gate().lag
        self._needed: dict[int, dict[Group, Sending]] = {}  # by position in the planned step
        self._due: dict[int, FloatArray] = {}  # decoding time there (s)
        self._sent: Counter[Group] = Counter()
        sync, mesh = job.scenario.strategy.sync, job.cluster.mesh
        self._among = {"group": sync.group_size(mesh)}

    def plan(self, step: int) -> Itinerary:
        """Return the itinerary of the next step, which is ``step``."""
        planned = Itinerary(step)
        sent = [self._sending(step, call) for call in self.job.calls(step)]
        for before, after in pairwise(sent):
            if after.call.follows:
                before.then = after
        planned.sent = sent
        # Calls are in order: those ready before the update come first, then models and fragments.
        planned.gradients = sum(each.call.ready < self.program.updated for each in sent)
        _Walk(self, planned).through()
        length = self.program.updated
        # Calls needed at the end of a step are needed at the begin of the next one.
        self._needed = {where - length: last for where, last in self._needed.items()}
        self._due = {where - length: seconds for where, seconds in self._due.items()}
        return planned

    def _sending(self, step: int, call: StagedCall) -> Sending:
        number = self._sent[call.group]
        self._sent[call.group] += 1
        return Sending(number, step, call, self.job.workers)

    def among(self, sent: Iterable[Sending]) -> int:
        """Return how many workers a worker synchronises with when it waits for ``sent``."""
        return max(self._among.get(each.call.group, self.job.workers) for each in sent)

    def need(self, sent: Sending, position: int) -> None:
        """Let nothing past ``position`` start before ``sent`` has finished."""
        # Streams run calls in order, so waiting for the last call needed at a place is enough.
        self._needed.setdefault(position, {})[sent.call.group] = sent

    def decode_at(self, call: StagedCall) -> None:
        """Schedule the decoding of ``call``, which is needed in a later step."""
        position = call.needed + call.lag * self.program.updated
        self._due[position] = self._due.get(position, 0.0) + call.decode

    def needed_at(self, position: int) -> tuple[tuple[Sending, ...], FloatArray | None]:
        """Return the calls to wait for at ``position`` and the decoding there, and forget them."""
        needed = tuple(self._needed.pop(position, {}).values())
        return needed, self._due.pop(position, None) if needed else None

    def needed_between(self, begin: int, stop: int) -> list[int]:
        """Return the positions strictly between ``begin`` and ``stop`` where a call is needed."""
        return [where for where in self._needed if begin < where < stop]

    def where_needed(self, call: StagedCall) -> int:
        """Return where ``call`` is needed: in a later step if workers or calls may lag."""
        return call.needed + (self._lag + call.lag) * self.program.updated


class _Walk:
    """The path of a compute stream through one step."""

    def __init__(self, planner: Planner, planned: Itinerary) -> None:
        self.planner = planner
        self.program = planner.program
        self.planned = planned
        self.at = 0
        # Calls without encoding are submitted when ready, others once they are encoded.
        self._in_passing: dict[int, list[Sending]] = defaultdict(list)
        for each in planned.sent:
            if not (each.call.follows or each.call.encode.any()):
                self._in_passing[each.call.ready].append(each)
        gradients = planned.sent[: planned.gradients]
        self._last = gradients[-1].call.ready if gradients else None

    def through(self) -> None:
        """Plan the whole step."""
        program, sent = self.program, self.planned.sent
        gradients = sent[: self.planned.gradients]
        self._arrive(0)
        self._do(Mark(begins=True))
        self._send(gradients)
        self._to(program.end)
        if self._last is None:
            self._do(Mark())
        self._decode(gradients)
        self._to(program.updated)
        models = sent[self.planned.gradients :]
        self._send(models)
        self._decode(models)

    def _send(self, sent: list[Sending]) -> None:
        for each in sent:
            call = each.call
            self._to(call.ready)
            if call.encode.any():
                self._do(Code(f"encode {call.name}", call.encode))
                self._do(Submit((each,)))
            if not call.awaited:
                continue
            needed = self.planner.where_needed(call)
            if needed == self.at:
                self._wait((each,))
            else:
                self.planner.need(each, needed)
            if call.lag:
                self.planner.decode_at(call)

    def _decode(self, sent: list[Sending]) -> None:
        """Decode the calls that have arrived; lagging calls have not."""
        arrived = (each.call.decode for each in sent if not each.call.lag)
        self._code_for(sum(arrived, start=np.zeros(1)))

    def _code_for(self, seconds: FloatArray) -> None:
        if seconds.any():
            self._do(Code("decode", seconds))

    def _to(self, position: int) -> None:
        """Compute up to ``position``, and handle what is ready or needed on the way."""
        ready = [where for where in self._in_passing if self.at < where < position]
        marks = [] if self._last is None or not self.at < self._last < position else [self._last]
        needed = self.planner.needed_between(self.at, position)
        for stop in sorted({*ready, *marks, *needed, position}):
            if stop > self.at:
                self._do(Compute(self.at, stop))
                self.at = stop
                self._arrive(stop)

    def _arrive(self, position: int) -> None:
        if position == self._last:
            self._do(Mark())
        if position in self._in_passing:
            self._do(Submit(tuple(self._in_passing.pop(position))))
        if position < self.program.updated:
            needed, decode = self.planner.needed_at(position)
            if needed:
                self._wait(needed)
            if decode is not None:
                self._code_for(decode)

    def _wait(self, until: tuple[Sending, ...]) -> None:
        self._do(Wait(until, len(self.planned.among)))
        self.planned.among.append(self.planner.among(until))

    def _do(self, act: Act) -> None:
        self.planned.acts.append(act)
