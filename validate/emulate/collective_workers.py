"""Workers that exchange in collectives, as real ranks.

Passes are timed waits, and a communication thread carries out calls in their order, like in
`dpsim.engine.vector_engine`.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from dpsim.base.arrays import FloatArray
from dpsim.engine import Job, StagedCall
from dpsim.strategy.aggregation import Group
from validate.emulate.carriers import Carriers
from validate.emulate.clock import Pace, now
from validate.emulate.push_pull import receive, send, wait_all
from validate.emulate.row import Carried, Row
from validate.ranks.processes import World

READY = 1005


class Quorum:
    """Decides when a collective may begin: when this worker is ready, or ``quorum`` workers are.

    A worker that is not ready then takes part with the data it has. Each of ``workers`` announces
    to all others, in a message of 8 bytes, that it is ready for one of ``total`` collectives.
    Source: Li et al., "Taming unbalanced training workloads in deep learning with partial
    collective operations", PPoPP 2020.
    """

    def __init__(self, world: World, workers: int, quorum: int, total: int) -> None:
        self._world = world
        self._quorum = quorum
        self._total = total
        self._there = [0] * total
        self._own = 0
        self._pending: list[Any] = []  # messages on their way must be kept
        self._changed = threading.Condition()
        # If all are needed, the collective itself waits for all, and no messages are needed.
        self._peers: list[int] = []
        if quorum < workers:
            self._peers = [peer for peer in range(workers) if peer != world.rank]
        self._listeners = [
            threading.Thread(target=self._listen, args=(peer,), daemon=True) for peer in self._peers
        ]
        for listener in self._listeners:
            listener.start()

    def ready(self, number: int) -> None:
        """Announce that this worker is ready for collective ``number``, after all before it."""
        with self._changed:
            self._own = number + 1
            self._there[number] += 1
            self._changed.notify_all()
        for peer in self._peers:
            self._pending.append(send(self._world, torch.tensor([number]), peer, READY))

    def wait(self, number: int) -> None:
        """Wait until this worker is ready, or enough others are."""
        # A worker that is ready takes part at once, even without a quorum: the collective has then
        # begun for it, and waits for the others' threads.
        with self._changed:
            self._changed.wait_for(
                lambda: self._own > number or self._there[number] >= self._quorum
            )

    def close(self) -> None:
        """Wait until all others have sent all their messages."""
        for listener in self._listeners:
            listener.join()
        wait_all(self._pending)

    def _listen(self, peer: int) -> None:
        word = torch.zeros(1, dtype=torch.int64)
        for _ in range(self._total):
            receive(self._world, word, peer, READY).wait()
            with self._changed:
                self._there[int(word)] += 1
                self._changed.notify_all()


Ticket = threading.Event  # set when a call is done


class Progress:
    """The progress of worker ``rank`` of ``job`` through its steps.

    Passes are timed waits, with waits for calls in between. Time 0 is ``start`` on the monotonic
    clock; ``row`` is the current step's.
    """

    def __init__(self, job: Job, rank: int, start: float) -> None:
        self.positions = job.positions[:, job.kind_of[rank]].tolist()
        self.last = len(self.positions) - 1
        self.row = Row(0)
        self._pace = Pace(start)
        self._start = start
        self._loading = None if job.input is None else job.input.of(rank).start()
        self._marks = {call.ready for calls in job.calls_of.values() for call in calls}
        self._awaited: dict[int, list[Ticket]] = {}
        self._reached: dict[int, float] = {}
        self._at = 0
        self._factor = 1.0

    def begin(self, step: int, factor: float) -> None:
        """Start a step: wait for its samples, and for calls needed before its first pass."""
        self.row = Row(step)
        self._factor, self._at = factor, 0
        self._reached = {}
        if self._loading is not None:
            planned = self._pace.at - self._start
            taken = float(self._loading.take(np.array([planned]))[0])
            self.row.input = taken - planned
            self._pace.spend(self.row.input)
        self.settle()
        self.row.begin = self._reached[0] = now()

    def end(self) -> None:
        """End the step: calls still awaited are awaited in the next one."""
        # Positions continue across steps, so the last one of this step is the next step's first.
        self._awaited = {where - self.last: tickets for where, tickets in self._awaited.items()}
        self.row.end = now()

    def reached(self, position: int) -> float:
        """Return when it had computed up to ``position``, at which calls become ready, or 0."""
        return self._reached[position]

    def to(self, position: int) -> None:
        """Compute up to ``position``, waiting for the calls needed on the way."""
        if position == self._at:
            return
        # Stops where a call is needed, and where calls become ready (for `reached`); layers without
        # either are one sleep.
        known = {*self._awaited, *self._marks}
        between = {where for where in known if self._at < where < position}
        for stop in sorted(between | {position}):
            self.settle()
            self._pace.spend(self._factor * (self.positions[stop] - self.positions[self._at]))
            self._at = stop
            self._reached[stop] = now()

    def spend_coding(self, seconds: float) -> None:
        """Encode or decode."""
        self._pace.spend(seconds)
        self.row.encode += seconds

    def wait_for(self, ticket: Ticket, position: int) -> None:
        """Let nothing past ``position`` start before ``ticket`` is set.

        If that is this step's end, it is the next one's start.
        """
        self._awaited.setdefault(position, []).append(ticket)

    def settle(self) -> None:
        """Wait for the calls needed at the current position."""
        if self._at not in self._awaited:
            return
        began = now()
        for ticket in self._awaited.pop(self._at):
            ticket.wait()
        self.row.waits.append((began, now()))
        # Passes after a wait start when it is over, however late compared with the plan.
        self._pace.resume()


Report = Callable[[Row | Carried], None]
Calls = Sequence[tuple[int, StagedCall]]  # with the steps in which they are sent


class Courier:
    """A worker's communication thread for all, its group, the groups, or replicas of its shard.

    It carries out every such call of every step, one after the other. If a call of another courier
    follows one of them, ``followed_by`` has that courier by the call's number.
    """

    def __init__(self, calls: Calls, carriers: Carriers, quorum: Quorum, report: Report) -> None:
        # A worker submits calls in the same order, so that a number identifies one.
        self._calls = calls
        self._tickets = [Ticket() for _ in self._calls]
        self._carriers = carriers
        self._quorum = quorum
        self._report = report
        self.followed_by: dict[int, Courier] = {}
        self._ready = self._awaited = 0
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._work, daemon=True)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def ready(self) -> None:
        """Announce that the next call of all is ready here."""
        self._quorum.ready(self._ready)
        self._ready += 1

    def ticket(self) -> Ticket:
        """Return the event that the next call of all is done. Raises an earlier failure."""
        if self._failed is not None:
            raise self._failed
        self._awaited += 1
        return self._tickets[self._awaited - 1]

    def finish(self) -> None:
        """Wait until all are done; raises a failure on the way."""
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _work(self) -> None:
        # All calls of the run in one order, the same on every rank: messages between two ranks are
        # matched by their order.
        try:
            for number, (step, call) in enumerate(self._calls):
                self._quorum.wait(number)
                stamps = []
                for carry in self._carriers.of(call, step):
                    began = now()
                    carry()
                    stamps.append((began, now()))
                self._tickets[number].set()
                if number in self.followed_by:
                    self.followed_by[number].ready()
                self._report(Carried(step, call.name, stamps, call.group))
        except BaseException as error:
            for courier in (self, *self.followed_by.values()):
                courier.fail(error)

    def fail(self, error: BaseException) -> None:
        """Release all that wait for calls that will never come."""
        self._failed = error
        for ticket in self._tickets:
            ticket.set()


Couriers = Mapping[Group, Courier]


class CollectiveWorker:
    """Worker ``rank`` of ``job``: its steps, like in `dpsim.engine.vector_engine`."""

    def __init__(self, job: Job, rank: int, progress: Progress, couriers: Couriers) -> None:
        self._job = job
        self._progress = progress
        self._couriers = couriers
        self._kind = int(job.kind_of[rank])
        self._lag = job.gate().lag * progress.last

    def step(self, step: int, factor: float) -> Row:
        """Take one step."""
        progress, calls = self._progress, self._job.calls(step)
        # Calls ready before the optimiser's step, and those that need its result.
        gradients = tuple(call for call in calls if call.ready < progress.last)
        models = calls[len(gradients) :]
        progress.begin(step, factor)
        self._communicate(gradients)
        progress.to(progress.last - 1)
        if gradients:
            progress.row.done = max(progress.reached(gradients[-1].ready), progress.row.begin)
        else:
            progress.row.done = now()
        progress.settle()
        self._decode(gradients)
        progress.to(progress.last)
        self._communicate(models)
        if models:
            progress.settle()
        self._decode(models)
        progress.end()
        return progress.row

    def _communicate(self, calls: tuple[StagedCall, ...]) -> None:
        for call in calls:
            courier = self._couriers[call.group]
            ticket = courier.ticket()
            if not call.follows:
                self._progress.to(call.ready)
                self._progress.spend_coding(float(call.encode[self._kind]))
                courier.ready()
            if call.awaited:
                needed = call.needed + self._lag + call.lag * self._progress.last
                self._progress.wait_for(ticket, needed)

    def _decode(self, calls: tuple[StagedCall, ...]) -> None:
        self._progress.spend_coding(sum(float(call.decode[self._kind]) for call in calls))


def work_collectively(
    job: Job, world: World, carriers: Carriers, factors: FloatArray, start: float, report: Report
) -> None:
    """Take all steps as worker ``world.rank``, with a row of ``factors`` (steps, workers) each.

    Time 0 is ``start``.
    """
    calls: dict[Group, list[tuple[int, StagedCall]]] = defaultdict(list)
    followed: list[tuple[Group, int, Group]] = []  # a call's group, its number, the following group
    for step in range(len(factors)):
        before: Group = "all"
        for call in job.calls(step):
            if call.follows:
                followed.append((before, len(calls[before]) - 1, call.group))
            calls[call.group].append((step, call))
            before = call.group
    quorums = {
        group: Quorum(world, job.workers, job.gate().quorum, len(own))
        for group, own in calls.items()
    }
    couriers = {
        group: Courier(own, carriers, quorums[group], report) for group, own in calls.items()
    }
    worker = CollectiveWorker(job, world.rank, Progress(job, world.rank, start), couriers)
    for group, number, following in followed:
        couriers[group].followed_by[number] = couriers[following]
    for courier in couriers.values():
        courier.start()
    for step, factor in enumerate(factors[:, world.rank].tolist()):
        report(worker.step(step, factor))
    for group, courier in couriers.items():
        courier.finish()
        quorums[group].close()
