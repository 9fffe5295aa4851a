"""Asynchronous gossip (AD-PSGD).

A worker averages its model with one random neighbour, which goes on computing meanwhile.
"""

from __future__ import annotations

from typing import cast

import numpy as np
import simpy

from dpsim.base.arrays import IntArray
from dpsim.collectives import Schedule, ranks_array
from dpsim.disturbance import random_stream
from dpsim.engine.alone import MeetingPoint, Process, Worker
from dpsim.engine.calls import StagedCall
from dpsim.engine.job import Job
from dpsim.network import SharedNetwork
from dpsim.strategy.aggregation import GossipConfig
from dpsim.topology import Routes

# Between neighbours: more are found one by one, as they are needed.
_MOST_ROUTES = 200_000


class InPairs(MeetingPoint):
    """Workers that average in pairs, each with one communication thread.

    A thread does one exchange at a time, its own or another's. The exchange runs beside the passes
    where the overlap policy lets it, after them otherwise. A worker's staleness is how often others
    averaged with it while it computed. Partners are drawn among the neighbours of the graph in that
    turn of the worker.
    """

    def __init__(self, job: Job) -> None:
        strategy = job.scenario.strategy
        self.job = job
        self.network = SharedNetwork(
            job.cluster, 0.0, job.setting.conditions(job.cluster, job.setting.workers)
        )
        self.env = self.network.env
        self.gate = job.gate()
        self._threads = [simpy.Resource(self.env) for _ in range(job.workers)]
        self._touched = [0] * job.workers
        self._averaged: dict[int, simpy.Event] = {}
        self._random = [
            random_stream(job.setting.seed, "gossip", rank) for rank in range(job.workers)
        ]
        turns = cast("GossipConfig", strategy.aggregation).turns(job.workers, job.setting.seed)
        self._neighbours = [neighbours(job.workers, turn) for turn in turns]
        self._nbytes = sum(nbytes for call in job.calls(0) for _, nbytes in call.stages)
        self._rows: dict[tuple[int, int], int] = {}
        self._routes = self._every_route()

    def _every_route(self) -> Routes | None:
        """The routes between neighbours, both ways, to send by; None where they are too many.

        Whose are in which row of it is kept in ``_rows``.
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

    def _ways(self, rank: int, partner: int) -> tuple[Routes, tuple[IntArray, ...]]:
        """The routes between two workers, and their rows, one for each way."""
        pair = (rank, partner), (partner, rank)
        if self._routes is not None:
            return self._routes, tuple(np.array([self._rows[way]]) for way in pair)
        routes = self.job.cluster.routes(*np.array(pair).T)
        return routes, tuple(ranks_array(2)[:, None])

    def begin(self, worker: Worker) -> None:
        """Others average with it from now on, too."""
        # Its version is how often others have averaged with it so far.
        worker.version = self._touched[worker.rank]

    def ready(self, worker: Worker, call: StagedCall) -> None:
        """Begin to average: the model is the one call."""
        self._averaged[worker.rank] = self.env.process(self._average(worker))

    def leave(self, worker: Worker) -> None:
        """Its communication thread stays."""
        self.gate.leave(worker.rank)

    def end(self, worker: Worker) -> Process:
        """Wait until the model is averaged; then take the optimiser's step on it."""
        yield from worker.wait("exposed_comm", self._averaged[worker.rank])
        yield from worker.decode()
        yield from worker.update()
        worker.stale = self._touched[worker.rank] - worker.version
        worker.world.hand_over(worker)

    def _average(self, worker: Worker) -> Process:
        """Exchange models with a partner when both threads are free."""
        choices = self._neighbours[worker.iteration % len(self._neighbours)][worker.rank]
        if not choices:
            return
        # As `Generator.choice` draws, without making an array of them.
        partner = choices[int(self._random[worker.rank].integers(len(choices)))]
        # Taken in the order of ranks: no circle of workers can wait for one another's thread.
        both = sorted((worker.rank, partner))
        lower, higher = (self._threads[rank] for rank in both)
        with lower.request() as first, higher.request() as second:
            yield first
            yield second
            begin = self.env.now
            exchanged = self.env.event()
            open_ = [2]  # both ways: a list, so that the function below can count down

            def ended(_: IntArray) -> None:
                open_[0] -= 1
                if not open_[0]:
                    exchanged.succeed()

            routes, ways = self._ways(worker.rank, partner)
            for way in ways:
                self.network.send(routes, way, float(self._nbytes), ended)
            yield exchanged
            worker.communicated(f"average with {partner}", begin)
        if worker.world.log is not None:
            worker.world.log.add(self.env.now, "averaged", worker.rank, worker.iteration, partner)
        self._touched[partner] += 1


def neighbours(workers: int, schedule: Schedule) -> list[list[int]]:
    """Whom each worker hears from in one turn."""
    found: list[list[int]] = [[] for _ in range(workers)]
    for phase in schedule.phases:
        sources = phase.source.tolist()
        destinations = phase.destination.at(0).tolist()
        for source, destination in zip(sources, destinations, strict=True):
            found[destination].append(source)
    return found
