"""Asynchronous workers at parameter servers.

Pushes as they become ready, updates in the order of arrival, a pull per iteration.
"""

from __future__ import annotations

from collections import deque
from typing import cast

import simpy

from dpsim.engine.alone import MeetingPoint, Process, Worker
from dpsim.engine.calls import StagedCall
from dpsim.engine.job import Job
from dpsim.network import SharedNetwork
from dpsim.strategy.aggregation import ParameterServerConfig


class AtServers(MeetingPoint):
    """Workers that push, wait until their gate lets them go on, and pull.

    A worker's gradient is handed over when the servers have applied the last part of it. Its calls
    follow one another.
    """

    def __init__(self, job: Job) -> None:
        aggregation = cast("ParameterServerConfig", job.scenario.strategy.aggregation)
        self.job = job
        self.gate = job.gate()
        self.servers = aggregation.place(job.setting)
        self.network = SharedNetwork(self.servers.network, 0.0, self.servers.conditions)
        self.env = self.network.env
        steps = job.counted.stop
        self.network.fluid.expect(self.servers.to_servers, steps * len(job.calls(0)))
        self.network.fluid.expect(self.servers.from_servers, steps)
        # Servers have equal shares of every push, so that one queue stands for all of theirs.
        self._free = 0.0
        self._changed = self.env.event()
        self._queues: list[deque[tuple[Worker, StagedCall]]] = [deque() for _ in range(job.workers)]
        self._open = [0] * job.workers
        self._handed_over: list[simpy.Event | None] = [None] * job.workers
        self._pushed = {call.name: _staged(call, "push") for call in job.calls(0)}
        self._pulled = sum(_staged(call, "pull") for call in job.calls(0))

    def begin(self, worker: Worker) -> None:
        """Nothing is sent."""

    def ready(self, worker: Worker, call: StagedCall) -> None:
        """Push it, after what the worker still has to push."""
        queue = self._queues[worker.rank]
        queue.append((worker, call))
        self._open[worker.rank] += 1
        if len(queue) == 1:
            self._push(worker, call)

    def _push(self, worker: Worker, call: StagedCall) -> None:
        nbytes, begin = self._pushed[call.name], self.env.now

        def arrived(_: object) -> None:
            worker.communicated(f"{call.name}: push", begin)
            queue = self._queues[worker.rank]
            queue.popleft()
            if queue:
                self._push(*queue[0])
            # Servers apply one push after another, so that a push waits for those before it.
            # Replicas get their copies while the next push is already applied.
            self._free = max(self._free, self.env.now) + self.servers.update_seconds(nbytes)
            waits = self._free - self.env.now
            replication = self.servers.replication_seconds(nbytes)
            self.network.after(waits + replication, lambda: self._applied(worker))

        self.network.send_one(self.servers.to_servers, worker.rank, nbytes, arrived)

    def _applied(self, worker: Worker) -> None:
        """The servers have applied one of its calls; with the last its gradient is complete."""
        self._open[worker.rank] -= 1
        handed_over = self._handed_over[worker.rank]
        # While the worker still computes nobody waits for that: it sees as much at its end.
        if not self._open[worker.rank] and handed_over is not None:
            self._take(worker)
            handed_over.succeed()

    def _take(self, worker: Worker) -> None:
        """Its gradient is complete; others may go on by it."""
        turn = self.gate.turn
        worker.world.hand_over(worker)
        if self.gate.turn > turn:
            self._tell()

    def _tell(self) -> None:
        """Whoever waits for a clock or a version may look again."""
        # An event happens once: who looks in vain waits for the next one.
        changed, self._changed = self._changed, self.env.event()
        changed.succeed()

    def end(self, worker: Worker) -> Process:
        """Wait until all is pushed and applied, then until the worker may go on; pull."""
        if self._open[worker.rank]:
            handed_over = self._handed_over[worker.rank] = self.env.event()
            yield from worker.wait("exposed_comm", handed_over)
            self._handed_over[worker.rank] = None
        else:
            # All of it was applied while the worker still computed: it counts at the end of the
            # step.
            self._take(worker)
        while not self.gate.may_go_on(worker.rank):
            yield from worker.wait("straggler_wait", self._changed)
        # Before it goes on, which makes another version the one that it has read.
        worker.stale = self.gate.staleness(worker.rank)
        worker.version = self.gate.go_on(worker.rank)
        yield from self._fetch(worker)
        yield from worker.decode()

    def leave(self, worker: Worker) -> None:
        """Whoever waits for it may go on."""
        self.gate.leave(worker.rank)
        self._tell()

    def _fetch(self, worker: Worker) -> Process:
        fetched = self.env.event()
        begin = self.env.now

        def arrived(_: object) -> None:
            fetched.succeed()

        self.network.send_one(self.servers.from_servers, worker.rank, self._pulled, arrived)
        yield from worker.wait("exposed_comm", fetched)
        worker.communicated("pull", begin)


def _staged(call: StagedCall, stage: str) -> float:
    """Bytes of a call's stage."""
    return float(sum(nbytes for name, nbytes in call.stages if name == stage))
