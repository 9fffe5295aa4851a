"""A step as what a worker's compute stream does, one act after the other; the same for all workers.

Its places are the positions of the program (`dpsim.workload.Program`). Where a worker comes to a
position, it first hands over what is ready there, and then waits for what is needed there.
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
    """Give these calls to the communication stream."""

    sent: tuple[Sending, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Code:
    """Encode or decode for so many seconds on each kind of GPU."""

    name: str
    seconds: FloatArray


@dataclass(frozen=True, slots=True)
class Wait:
    """Wait until one's communication streams are through with ``until``: the wait ``number``."""

    until: tuple[Sending, ...]
    number: int


@dataclass(frozen=True, slots=True)
class Mark:
    """Note the time: when computing ``begins``, or when the gradient is there."""

    begins: bool = False


Act = Compute | Submit | Code | Wait | Mark


@dataclass(slots=True)
class Itinerary:
    """The acts of step ``step``, what it sends in order, and how many waits it has.

    ``gradients`` are the first so many of ``sent``; ``among`` is how many neighbours each wait
    is among.
    """

    step: int
    acts: list[Act] = field(default_factory=list)
    sent: list[Sending] = field(default_factory=list)
    gradients: int = 0
    among: list[int] = field(default_factory=list)


class Planner:
    """Plans the steps of a job in order: what a step waits for may be of one before."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.program = job.program
        self._lag = job.gate().lag
        self._needed: dict[int, dict[Group, Sending]] = {}  # by position of the step planned
        self._due: dict[int, FloatArray] = {}  # what is decoded there
        self._sent: Counter[Group] = Counter()
        sync, mesh = job.scenario.strategy.sync, job.cluster.mesh
        self._among = {"group": sync.group_size(mesh)}

    def plan(self, step: int) -> Itinerary:
        """The itinerary of the next step, which is ``step``."""
        planned = Itinerary(step)
        sent = [self._sending(step, call) for call in self.job.calls(step)]
        for before, after in pairwise(sent):
            if after.call.follows:
                before.then = after
        planned.sent = sent
        # Calls stand in order: what is ready before the update comes first, models and fragments
        # then.
        planned.gradients = sum(each.call.ready < self.program.updated for each in sent)
        _Walk(self, planned).through()
        length = self.program.updated
        # What is needed where a step ends is needed where the next one begins.
        self._needed = {where - length: last for where, last in self._needed.items()}
        self._due = {where - length: seconds for where, seconds in self._due.items()}
        return planned

    def _sending(self, step: int, call: StagedCall) -> Sending:
        number = self._sent[call.group]
        self._sent[call.group] += 1
        return Sending(number, step, call, self.job.workers)

    def among(self, sent: Iterable[Sending]) -> int:
        """Of how many neighbours a worker waits for some, where it waits for ``sent``."""
        return max(self._among.get(each.call.group, self.job.workers) for each in sent)

    def need(self, sent: Sending, position: int) -> None:
        """Nothing past ``position`` starts before ``sent`` is through."""
        # Streams go through calls in order: the last of those needed at a place stands for all.
        self._needed.setdefault(position, {})[sent.call.group] = sent

    def decode_at(self, call: StagedCall) -> None:
        """``call`` is decoded where it is needed, if that is steps later."""
        position = call.needed + call.lag * self.program.updated
        self._due[position] = self._due.get(position, 0.0) + call.decode

    def needed_at(self, position: int) -> tuple[tuple[Sending, ...], FloatArray | None]:
        """What must be through there and is decoded there, if it has not been asked for yet."""
        needed = tuple(self._needed.pop(position, {}).values())
        return needed, self._due.pop(position, None) if needed else None

    def needed_between(self, begin: int, stop: int) -> list[int]:
        """Positions inside where something must be through."""
        return [where for where in self._needed if begin < where < stop]

    def where_needed(self, call: StagedCall) -> int:
        """Where ``call`` is needed, which is steps later where workers or calls may lag."""
        return call.needed + (self._lag + call.lag) * self.program.updated


class _Walk:
    """The way of a compute stream through one step."""

    def __init__(self, planner: Planner, planned: Itinerary) -> None:
        self.planner = planner
        self.program = planner.program
        self.planned = planned
        self.at = 0
        # Calls that need no encoding are handed over in passing, others when they are encoded.
        self._in_passing: dict[int, list[Sending]] = defaultdict(list)
        for each in planned.sent:
            if not (each.call.follows or each.call.encode.any()):
                self._in_passing[each.call.ready].append(each)
        gradients = planned.sent[: planned.gradients]
        self._last = gradients[-1].call.ready if gradients else None

    def through(self) -> None:
        """All of it."""
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
        """Decode what has arrived; of what lags behind, nothing has."""
        arrived = (each.call.decode for each in sent if not each.call.lag)
        self._code_for(sum(arrived, start=np.zeros(1)))

    def _code_for(self, seconds: FloatArray) -> None:
        if seconds.any():
            self._do(Code("decode", seconds))

    def _to(self, position: int) -> None:
        """Compute up to ``position``, with all that is ready or needed on the way."""
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
