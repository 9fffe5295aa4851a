"""One worker: the process of its compute stream, and those of its communication streams."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING

import numpy as np
import simpy

from dpsim.engine.events.itinerary import Act, Code, Compute, Mark, Submit, Wait
from dpsim.engine.events.sending import Sending
from dpsim.strategy.aggregation import Group

if TYPE_CHECKING:
    from dpsim.engine.events.world import World

Process = Generator[simpy.Event, None, None]


class Worker:
    """The worker ``rank``, where it is in its step, and how far its communication has come."""

    def __init__(self, rank: int, world: World) -> None:
        self.rank = rank
        self.world = world
        self.env = world.env
        self.step = 0
        self.coding = 0.0
        # By communicator: how many calls its stream is through with, and the event of whose
        # number its compute stream waits for.
        self._received: dict[Group, int] = dict.fromkeys(world.communicators, 0)
        self._awaits: dict[Group, tuple[int, simpy.Event]] = {}
        job = world.job
        self._kind = int(job.kind_of[rank])
        self._positions = world.positions[self._kind]
        self._factor = 1.0
        self._loading = None if job.input is None else job.input.of(rank).start()

    def compute(self) -> Process:
        """The life of its compute stream."""
        world = self.world
        for self.step in range(world.steps):
            self.coding, self._factor = 0.0, world.factor(self.step, self.rank)
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
        """The life of a communication stream: the calls of a communicator, in the plan's order."""
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
            world.through(sending)
            if sending.then is not None:
                sending.then.submit(self.rank, world.workers)
            if group in self._awaits and self._awaits[group][0] == sending.number:
                self._awaits.pop(group)[1].succeed()

    def _load(self) -> Process:
        """Wait for the next batch."""
        assert self._loading is not None
        begin = self.env.now
        there = float(self._loading.take(np.array([begin]))[0])
        self.world.records.input[self.step, self.rank] = there - begin
        self._note(self.step, "input", "next batch", begin, there)
        if there > begin:
            yield self.env.timeout(there - begin)

    def _do(self, act: Act) -> float:
        """One act of a step that waits for nobody; returns how long it takes (s)."""
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
        """Seconds of computing from one position to another."""
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
        """Encode or decode, which takes ``seconds``."""
        self.coding += seconds
        if seconds > 0:
            self._note(self.step, "compute", name, self.env.now, self.env.now + seconds)
        return seconds

    def _wait(self, until: tuple[Sending, ...], number: int) -> Process:
        """Wait until its communication streams are through with ``until``."""
        there = self.env.now
        for sending in until:
            group = sending.call.group
            # Calls are numbered from 0: the stream is through with those below ``received``.
            if self._received[group] <= sending.number:
                arrived = self.env.event()
                self._awaits[group] = sending.number, arrived
                yield arrived
        self.world.waited(self, number, there)

    def _note(self, step: int, stream: str, name: str, start: float, end: float) -> None:
        """Keep an interval for the timeline, if there is one."""
        if self.world.timeline is not None:
            self.world.timeline.add_one(step, self.rank, stream, name, start, end)
