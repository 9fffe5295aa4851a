"""Asynchronous workers with parameter servers.

Workers push gradients as they become ready, servers apply them in order of arrival, and each worker
pulls once per iteration.
"""

from __future__ import annotations

from collections import deque
from typing import cast

import simpy

from dpsim.engine.calls import StagedCall
from dpsim.engine.independent_workers import Coordinator, Process, Worker
from dpsim.engine.job import Job
from dpsim.network import SharedNetwork
from dpsim.strategy.aggregation import ParameterServerConfig


class ServerCoordinator(Coordinator):
    """Workers that push, wait until their gate lets them continue, and pull.

    A worker's gradient is complete when the servers have applied the last part of it. A worker
    pushes its calls one after the other.
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
        # Servers have equal shares of every push, so one queue models all servers.
        self._free_at = 0.0
        self._changed = self.env.event()
        self._queues: list[deque[tuple[Worker, StagedCall]]] = [deque() for _ in range(job.workers)]
        self._unapplied = [0] * job.workers
        # The number of pushes of a backlog that have arrived, and when the last one is applied (s).
        self._arrived = [(0, 0.0)] * job.workers
        self._complete: list[simpy.Event | None] = [None] * job.workers
        self._pushed = {call.name: _staged(call, "push") for call in job.calls(0)}
        self._pulled = sum(_staged(call, "pull") for call in job.calls(0))

    def ready(self, worker: Worker, call: StagedCall) -> None:
        """Push ``call`` after the worker's earlier pushes."""
        queue = self._queues[worker.rank]
        queue.append((worker, call))
        self._unapplied[worker.rank] += 1
        if len(queue) == 1:
            self._push(worker, call)

    def _push(self, worker: Worker, call: StagedCall) -> None:
        nbytes, begin = self._pushed[call.name], self.env.now

        def arrived(_: object) -> None:
            worker.communicated(f"{call.name}: push", begin)
            now, rank = self.env.now, worker.rank
            queue = self._queues[rank]
            queue.popleft()
            if queue:
                self._push(*queue[0])
            # Servers apply pushes one at a time, so a push waits for the earlier ones. Replicas get
            # their copies while the next push is already being applied.
            self._free_at = max(self._free_at, now) + self.servers.update_seconds(nbytes)
            wait = self._free_at - now + self.servers.replication_seconds(nbytes)
            pushes, applied = self._arrived[rank]
            pushes, wait = pushes + 1, max(wait, applied - now)
            # Only the last of a backlog can complete a gradient.
            if queue:
                self._arrived[rank] = pushes, now + wait
            else:
                self._arrived[rank] = 0, 0.0
                self.network.after(wait, lambda: self._applied(worker, pushes))

        self.network.send_one(self.servers.to_servers, worker.rank, nbytes, arrived)

    def _applied(self, worker: Worker, pushes: int) -> None:
        """Count pushes that the servers have applied; the last one completes the gradient."""
        self._unapplied[worker.rank] -= pushes
        complete = self._complete[worker.rank]
        # While the worker still computes, nothing waits for this event: `end` checks it.
        if not self._unapplied[worker.rank] and complete is not None:
            self._hand_over(worker)
            complete.succeed()

    def _hand_over(self, worker: Worker) -> None:
        """Hand over the worker's complete gradient, which may release other workers."""
        turn = self.gate.turn
        worker.world.hand_over(worker)
        if self.gate.turn > turn:
            self._wake_all()

    def _wake_all(self) -> None:
        """Wake the workers that wait for a clock or a version."""
        # A SimPy event happens once: a worker that still may not continue waits for the next one.
        changed, self._changed = self._changed, self.env.event()
        changed.succeed()

    def end(self, worker: Worker) -> Process:
        """Wait until all pushes are applied and the gate lets the worker continue, then pull."""
        if self._unapplied[worker.rank]:
            complete = self._complete[worker.rank] = self.env.event()
            yield from worker.wait("exposed_comm", complete)
            self._complete[worker.rank] = None
        else:
            # The gradient was applied while the worker still computed: it counts at the step's end.
            self._hand_over(worker)
        while not self.gate.may_go_on(worker.rank):
            yield from worker.wait("straggler_wait", self._changed)
        # Read the staleness before `go_on`, which changes the version that the worker has read.
        worker.stale = self.gate.staleness(worker.rank)
        worker.version = self.gate.go_on(worker.rank)
        yield from self._fetch(worker)
        yield from worker.decode()

    def leave(self, worker: Worker) -> None:
        """Remove the worker from the gate, and wake the workers that wait for it."""
        super().leave(worker)
        self._wake_all()

    def _fetch(self, worker: Worker) -> Process:
        fetched = self.env.event()
        begin = self.env.now

        def arrived(_: object) -> None:
            fetched.succeed()

        self.network.send_one(self.servers.from_servers, worker.rank, self._pulled, arrived)
        yield from worker.wait("exposed_comm", fetched)
        worker.communicated("pull", begin)


def _staged(call: StagedCall, stage: str) -> float:
    """Return the bytes that ``call`` sends in ``stage``."""
    return float(sum(nbytes for name, nbytes in call.stages if name == stage))
