"""Workers that act together, as real ranks.

Passes are timed waits, and a communication thread carries out calls in their order.
"""

from __future__ import annotations

import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence

from dpsim.base.arrays import FloatArray
from dpsim.engine import Job, StagedCall
from dpsim.strategy.aggregation import Group
from validate.emulate.carriers import Carriers
from validate.emulate.clock import now
from validate.emulate.quorum import Quorum
from validate.emulate.row import Carried, Row
from validate.emulate.walk import Ticket, Walk
from validate.ranks.processes import World

Say = Callable[[Row | Carried], None]
Calls = Sequence[tuple[int, StagedCall]]  # with the steps in which they are sent


class Courier:
    """A worker's communication thread for all, its group, the groups, or replicas of its shard.

    It carries out every such call of every step, one after the other. If a call of another courier
    follows one of them, ``followed_by`` has that courier by the call's number.
    """

    def __init__(self, calls: Calls, carriers: Carriers, quorum: Quorum, say: Say) -> None:
        # A worker submits calls in the same order, so that a number identifies one.
        self._calls = calls
        self._tickets = [Ticket() for _ in self._calls]
        self._carriers = carriers
        self._quorum = quorum
        self._say = say
        self.followed_by: dict[int, Courier] = {}
        self._ready = self._asked = 0
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
        self._asked += 1
        return self._tickets[self._asked - 1]

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
                self._say(Carried(step, call.name, stamps, call.group))
        except BaseException as error:
            for courier in (self, *self.followed_by.values()):
                courier.fail(error)

    def fail(self, error: BaseException) -> None:
        """Release all that wait for calls that will never come."""
        self._failed = error
        for ticket in self._tickets:
            ticket.set()


Couriers = Mapping[Group, Courier]


class TogetherWorker:
    """Worker ``rank`` of ``job``: its steps, like in `dpsim.engine.vector_engine`."""

    def __init__(self, job: Job, rank: int, walk: Walk, couriers: Couriers) -> None:
        self._job = job
        self._walk = walk
        self._couriers = couriers
        self._kind = int(job.kind_of[rank])
        self._lag = job.gate().lag * walk.last

    def step(self, step: int, factor: float) -> Row:
        """Take one step."""
        walk, calls = self._walk, self._job.calls(step)
        # Calls ready before the optimiser's step, and those that need its result.
        gradients = tuple(call for call in calls if call.ready < walk.last)
        models = calls[len(gradients) :]
        walk.begin(step, factor)
        self._communicate(gradients)
        walk.to(walk.last - 1)
        if gradients:
            walk.row.done = max(walk.reached(gradients[-1].ready), walk.row.begin)
        else:
            walk.row.done = now()
        walk.settle()
        self._decode(gradients)
        walk.to(walk.last)
        self._communicate(models)
        if models:
            walk.settle()
        self._decode(models)
        walk.end()
        return walk.row

    def _communicate(self, calls: tuple[StagedCall, ...]) -> None:
        for call in calls:
            courier = self._couriers[call.group]
            ticket = courier.ticket()
            if not call.follows:
                self._walk.to(call.ready)
                self._walk.spend_coding(float(call.encode[self._kind]))
                courier.ready()
            if call.awaited:
                needed = call.needed + self._lag + call.lag * self._walk.last
                self._walk.wait_for(ticket, needed)

    def _decode(self, calls: tuple[StagedCall, ...]) -> None:
        self._walk.spend_coding(sum(float(call.decode[self._kind]) for call in calls))


def work_together(
    job: Job, world: World, carriers: Carriers, factors: FloatArray, start: float, say: Say
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
    couriers = {group: Courier(own, carriers, quorums[group], say) for group, own in calls.items()}
    worker = TogetherWorker(job, world.rank, Walk(job, world.rank, start), couriers)
    for group, number, following in followed:
        couriers[group].followed_by[number] = couriers[following]
    for courier in couriers.values():
        courier.start()
    for step, factor in enumerate(factors[:, world.rank].tolist()):
        say(worker.step(step, factor))
    for group, courier in couriers.items():
        courier.finish()
        quorums[group].close()
