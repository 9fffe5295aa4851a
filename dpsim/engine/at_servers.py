"""Asynchronous workers at parameter servers.

Pushes as they become ready, updates in the order of arrival, a pull per iteration.
"""

from __future__ import annotations

from collections import deque
from typing import cast

import numpy as np
import simpy

from dpsim.engine.alone import MeetingPoint, Process, Worker
from dpsim.engine.job import Job
from dpsim.engine.staged_call import StagedCall
from dpsim.engine.steps import DROPPED
from dpsim.network import SharedNetwork
from dpsim.strategy.aggregation import ParameterServerConfig
from dpsim.strategy.sync import SspConfig


class AtServers(MeetingPoint):
    """SSP, ASP and backup workers. ``version`` counts the updates that the servers have applied.

    Under SSP and ASP each worker's gradient is an update when its last part is applied; under
    backup the first m of a version together are one, and later ones of that version are dropped. A
    worker's calls follow one another.
    """

    def __init__(self, job: Job) -> None:
        aggregation = cast("ParameterServerConfig", job.scenario.strategy.aggregation)
        self.job = job
        self.sync = job.scenario.strategy.sync
        self.servers = aggregation.place(job.setting)
        self.network = SharedNetwork(self.servers.network, 0.0, self.servers.conditions)
        self.env = self.network.env
        self.version = 0
        self._bound = self.sync.staleness if isinstance(self.sync, SspConfig) else None
        self._quorum = self.sync.quorum(job.workers) if self.sync.drops else None
        self._counted = 0
        self._living = job.workers
        self._free = 0.0
        self._changed = self.env.event()
        self._queues: list[deque[tuple[Worker, StagedCall]]] = [deque() for _ in range(job.workers)]
        self._open = [0] * job.workers
        self._handed_over: list[simpy.Event | None] = [None] * job.workers
        self._pull = sum(
            nbytes for call in job.calls(0) for name, nbytes in call.stages if name == "pull"
        )

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
        nbytes = sum(size for name, size in call.stages if name == "push")
        begin = self.env.now

        def arrived(_: object) -> None:
            worker.communicated(f"{call.name}: push", begin)
            queue = self._queues[worker.rank]
            queue.popleft()
            if queue:
                self._push(*queue[0])
            self._free = max(self._free, self.env.now) + self.servers.update_seconds(nbytes)
            self.network.after(
                self._free - self.env.now + self.servers.replication_seconds(nbytes),
                lambda: self._applied(worker),
            )

        self.network.send(self.servers.to_servers, np.array([worker.rank]), float(nbytes), arrived)

    def _applied(self, worker: Worker) -> None:
        """The servers have taken up one of its calls; with the last of them its gradient is
        theirs.
        """
        self._open[worker.rank] -= 1
        handed_over = self._handed_over[worker.rank]
        if not self._open[worker.rank] and handed_over is not None:
            self._take(worker)
            handed_over.succeed()

    def _take(self, worker: Worker) -> None:
        """Its gradient is complete: an update, a part of one, or too late."""
        turn = self._turn(worker)
        worker.world.passed(worker)
        worker.stale, before = self.version - worker.version, self.version
        if self._quorum is None:
            self.version += 1
        elif worker.stale or self._living < self._quorum:
            worker.stale = DROPPED
        else:
            self._counted += 1
            if self._counted == self._quorum:
                self._counted, self.version = 0, self.version + 1
        worker.world.gave(
            worker, DROPPED if worker.stale == DROPPED else before, applied=self.version > before
        )
        if self._turn(worker) > turn:
            self._tell()

    def _turn(self, worker: Worker) -> int:
        """What others wait for: the next update of backup workers, the slowest clock of stale ones."""
        return worker.world.slowest if self._quorum is None else self.version

    def _tell(self) -> None:
        """Whoever waits for a clock or a version may look again."""
        changed, self._changed = self._changed, self.env.event()
        changed.succeed()

    def end(self, worker: Worker) -> Process:
        """Wait until all is pushed and applied, then until the worker may go on; pull."""
        if self._open[worker.rank]:
            handed_over = self._handed_over[worker.rank] = self.env.event()
            yield from worker.wait("exposed_comm", handed_over)
            self._handed_over[worker.rank] = None
        else:
            self._take(worker)
        while self._must_wait(worker):
            yield from worker.wait("straggler_wait", self._changed)
        if self._quorum is not None and self.version == worker.version:
            worker.stale = DROPPED
        worker.version = self.version
        yield from self._fetch(worker)
        yield from worker.decode()

    def leave(self) -> None:
        """With fewer left than make an update there is none any more."""
        self._living -= 1
        self._tell()

    def _must_wait(self, worker: Worker) -> bool:
        """Whether it may not begin its next iteration yet."""
        if self._quorum is not None:
            return (
                worker.stale != DROPPED
                and self.version == worker.version
                and self._living >= self._quorum
            )
        return self._bound is not None and worker.iteration + 1 - worker.world.slowest > self._bound

    def _fetch(self, worker: Worker) -> Process:
        fetched = self.env.event()
        begin = self.env.now

        def arrived(_: object) -> None:
            fetched.succeed()

        self.network.send(
            self.servers.from_servers, np.array([worker.rank]), float(self._pull), arrived
        )
        yield from worker.wait("exposed_comm", fetched)
        worker.communicated("pull", begin)
