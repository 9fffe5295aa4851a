"""Asynchronous gossip (AD-PSGD).

A worker averages its model with one random neighbour, which keeps computing meanwhile.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from functools import partial
from typing import cast

import numpy as np
import simpy

from dpsim.base.arrays import IntArray
from dpsim.collectives import Schedule
from dpsim.disturbance import random_stream
from dpsim.engine.calls import StagedCall
from dpsim.engine.independent_workers import Coordinator, Process, Worker
from dpsim.engine.job import Job
from dpsim.network import SharedNetwork
from dpsim.strategy.aggregation import GossipConfig
from dpsim.topology import Routes

# Up to this many routes between neighbours are computed in advance, others when needed.
_MOST_ROUTES = 200_000


class _Thread:
    """A worker's communication thread: one exchange at a time, in the order of the requests."""

    def __init__(self) -> None:
        self._taken = False
        self._waiting: deque[Callable[[], None]] = deque()

    def acquire(self, then: Callable[[], None]) -> None:
        """Call ``then`` when the thread is free: now, or after the earlier requests."""
        if self._taken:
            self._waiting.append(then)
        else:
            self._taken = True
            then()

    def release(self) -> None:
        """Hand the thread to the request that has waited longest."""
        if self._waiting:
            self._waiting.popleft()()
        else:
            self._taken = False


class PairwiseCoordinator(Coordinator):
    """Workers that average in pairs, each with one communication thread.

    A thread does one exchange at a time, its own or another worker's. The exchange overlaps with
    the passes if the overlap policy allows it, and follows them otherwise. A worker's staleness is
    how often others averaged with it while it computed. Partners are drawn from the worker's
    neighbours in the graph of its current turn.
    """

    def __init__(self, job: Job) -> None:
        strategy = job.scenario.strategy
        self.job = job
        self.network = SharedNetwork(job.cluster, 0.0, job.setting.conditions(job.cluster))
        self.env = self.network.env
        self.gate = job.gate()
        self._threads = [_Thread() for _ in range(job.workers)]
        self._versions = [0] * job.workers
        self._averaged: dict[int, simpy.Event] = {}
        self._random = [
            random_stream(job.setting.seed, "gossip", rank) for rank in range(job.workers)
        ]
        turns = cast("GossipConfig", strategy.aggregation).turns(job.workers, job.setting.seed)
        self._neighbours = [neighbours(job.workers, turn) for turn in turns]
        self._nbytes = sum(nbytes for call in job.calls(0) for _, nbytes in call.stages)
        self._rows: dict[tuple[int, int], int] = {}
        self._routes = self._all_routes()

    def _all_routes(self) -> Routes | None:
        """Return the routes between neighbours, both ways, or None if there are too many.

        ``_rows`` maps each pair to its row.
        """
        pairs = {
            (partner, rank)
            for turn in self._neighbours
            for rank, partners in enumerate(turn)
            for partner in partners
        }
        if len(pairs) > _MOST_ROUTES:
            return None
        both = sorted(pairs | {(rank, partner) for partner, rank in pairs})
        self._rows = {pair: row for row, pair in enumerate(both)}
        routes = self.job.cluster.routes(*np.array(both, dtype=np.int64).T)
        # A worker averages with one neighbour in each step, both ways.
        exchanges = 2 * self.job.workers * self.job.counted.stop
        self.network.fluid.expect(routes, exchanges / max(len(both), 1))
        return routes

    def _exchange_routes(self, rank: int, partner: int) -> tuple[Routes, tuple[int, int]]:
        """Return the routes between two workers and their rows, one for each direction."""
        pair = (rank, partner), (partner, rank)
        if self._routes is not None:
            return self._routes, (self._rows[pair[0]], self._rows[pair[1]])
        routes = self.job.cluster.routes(*np.array(pair).T)
        return routes, (0, 1)

    def begin(self, worker: Worker) -> None:
        """Record the version of the worker's model when it begins to compute."""
        # The version is how often others have averaged with the worker so far.
        worker.version = self._versions[worker.rank]

    def ready(self, worker: Worker, call: StagedCall) -> None:
        """Start averaging: the model is the only call."""
        self._averaged[worker.rank] = self._average(worker)

    def end(self, worker: Worker) -> Process:
        """Wait until the model is averaged; then take the optimiser's step on it."""
        yield from worker.wait("exposed_comm", self._averaged[worker.rank])
        yield from worker.decode()
        yield from worker.update()
        worker.stale = self._versions[worker.rank] - worker.version
        worker.world.hand_over(worker)

    def _average(self, worker: Worker) -> simpy.Event:
        """Exchange models with a partner when both threads are free; return when it ends."""
        averaged = self.env.event()
        choices = self._neighbours[worker.iteration % len(self._neighbours)][worker.rank]
        if not choices:
            return averaged.succeed()
        # Draws like `Generator.choice`, without making an array.
        partner = choices[int(self._random[worker.rank].integers(len(choices)))]
        threads = [self._threads[rank] for rank in (worker.rank, partner)]
        exchange = partial(self._exchange, worker, worker.iteration, partner, averaged)
        missing = 2

        def acquired() -> None:
            nonlocal missing
            missing -= 1
            if not missing:
                exchange()

        # Both threads are requested at once, so that no cycle of workers can deadlock.
        for thread in threads:
            thread.acquire(acquired)
        return averaged

    def _exchange(
        self, worker: Worker, iteration: int, partner: int, averaged: simpy.Event
    ) -> None:
        """Send both models now that both threads are free."""
        begin, log = self.env.now, worker.world.log
        routes, rows = self._exchange_routes(worker.rank, partner)
        open_transfers = len(rows)

        def ended(_: IntArray) -> None:
            nonlocal open_transfers
            open_transfers -= 1
            if open_transfers:
                return
            worker.communicated(f"average with {partner}", begin)
            if log is not None:
                log.add(self.env.now, "averaged", worker.rank, iteration, partner)
            self._versions[partner] += 1
            averaged.succeed()
            for rank in (worker.rank, partner):
                self._threads[rank].release()

        for row in rows:
            self.network.send_one(routes, row, float(self._nbytes), ended)


def neighbours(workers: int, schedule: Schedule) -> list[list[int]]:
    """Return the workers that each worker receives from in one turn."""
    found: list[list[int]] = [[] for _ in range(workers)]
    for phase in schedule.phases:
        sources = phase.source.tolist()
        destinations = phase.destination.at(0).tolist()
        for source, destination in zip(sources, destinations, strict=True):
            found[destination].append(source)
    return found
