"""Parameter servers as real ranks.

A thread for each worker receives its shares, applies them in timed waits, and answers.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch

from dpsim.engine import DROPPED, Job, StagedCall
from dpsim.strategy.aggregation import ParameterServerConfig
from dpsim.strategy.sync import SspConfig
from validate.emulate.clock import now, sleep_until
from validate.emulate.push_pull import (
    GO,
    LEAVE,
    PULL,
    PUSH,
    REPLY,
    payload,
    receive,
    rotated,
    send,
    send_all,
    share,
    wait_all,
)
from validate.ranks.processes import World

OWN_NUMBERS = 5  # of a reply, before the arrivals: stale, version, taken, released, waited


class Server:
    """One server of ``job``: what its threads share.

    ``apply`` takes up shares one after the other at the server's rate. ``version`` counts its
    updates, ``clocks`` what each worker has handed over, as `dpsim.engine.at_servers` does for
    all servers together; here each server goes by what it has seen.
    """

    def __init__(self, job: Job) -> None:
        aggregation = job.scenario.strategy.aggregation
        assert isinstance(aggregation, ParameterServerConfig)
        sync = job.scenario.strategy.sync
        self.rate = aggregation.update_rate
        self.version = 0
        self.clocks = [0] * job.workers
        self._bound = sync.staleness if isinstance(sync, SspConfig) else None
        self._quorum = sync.quorum(job.workers) if sync.drops else None
        self._counted = 0
        self._living = job.workers
        self._free = 0.0
        self._changed = threading.Condition()

    def apply(self, nbytes: int) -> None:
        """Take up a share, after those that came before it."""
        with self._changed:
            self._free = max(self._free, now()) + nbytes / self.rate
            until = self._free
        sleep_until(until)

    def take(self, worker: int, read: int) -> int:
        """The gradient of ``worker``, computed on version ``read``, is complete.

        An update, a part of one, or too late.
        """
        with self._changed:
            self.clocks[worker] += 1
            stale = self.version - read
            if self._quorum is None:
                self.version += 1
            elif stale or self._living < self._quorum:
                stale = DROPPED
            else:
                self._counted += 1
                if self._counted == self._quorum:
                    self._counted, self.version = 0, self.version + 1
            self._changed.notify_all()
            return stale

    def release(self, worker: int, stale: int, read: int) -> int:
        """Wait until ``worker`` may go on; the answer is the version that it goes on with."""
        with self._changed:
            self._changed.wait_for(lambda: not self._must_wait(worker, stale, read))
            return self.version

    def leave(self, worker: int) -> None:
        """It hands over nothing any more: nobody may wait for it."""
        with self._changed:
            self.clocks[worker] = 2**62
            self._living -= 1
            self._changed.notify_all()

    @property
    def drops(self) -> bool:
        """Whether late gradients are lost."""
        return self._quorum is not None

    def _must_wait(self, worker: int, stale: int, read: int) -> bool:
        if self._quorum is not None:
            return stale != DROPPED and self.version == read and self._living >= self._quorum
        return self._bound is not None and self.clocks[worker] - min(self.clocks) > self._bound


def serve_together(job: Job, world: World, servers: int, steps: int) -> None:
    """Answer each call when all workers' shares of it are applied."""
    server = Server(job)
    schedule = [
        call for step in range(steps) for call in job.calls(step) if "push" in dict(call.stages)
    ]
    pulls = iter([share(dict(call.stages)["pull"], servers) for call in schedule])

    def answer() -> None:
        """To all workers, each server beginning with another."""
        send_all(
            world,
            payload(next(pulls)),
            rotated(range(job.workers), world.rank - job.workers + 1),
            PULL,
        )

    met = threading.Barrier(job.workers, answer, world.timeout)

    def serve(worker: int) -> None:
        rooms = [payload(share(dict(call.stages)["push"], servers)) for call in schedule]
        coming: Any = receive(world, rooms[0], worker, PUSH) if rooms else None
        for number in range(len(schedule)):
            coming.wait()
            server.apply(len(rooms[number]))
            last = number + 1 == len(schedule)
            coming = None if last else receive(world, rooms[number + 1], worker, PUSH)
            met.wait()

    _threads(job.workers, serve)


def serve_alone(job: Job, world: World, servers: int) -> None:
    """Take what each worker pushes, let it wait as it must, and send it what it goes on with, until
    all have left.
    """
    server, calls = Server(job), job.calls(0)
    pull = sum(nbytes for call in calls for name, nbytes in call.stages if name == "pull")

    def serve(worker: int) -> None:
        read = 0
        word = torch.zeros(1, dtype=torch.int64)
        coming = receive(world, word, worker, GO)
        while True:
            coming.wait()
            if int(word) == LEAVE:
                server.leave(worker)
                return
            arrived = _receive_all(world, worker, calls, servers, server)
            taken = now()
            stale = server.take(worker, read)
            version = server.release(worker, stale, read)
            if server.drops and version == read:
                stale = DROPPED
            read = version
            released = now()
            coming = receive(world, word, worker, GO)
            numbers = torch.tensor(
                [stale, version, taken, released, released - taken, *arrived], dtype=torch.float64
            )
            wait_all(
                [
                    send(world, numbers, worker, REPLY),
                    send(world, payload(share(pull, servers)), worker, PULL),
                ]
            )

    _threads(job.workers, serve)


def _receive_all(
    world: World, worker: int, calls: tuple[StagedCall, ...], servers: int, server: Server
) -> list[float]:
    """When each call's share had come; returns when all are applied."""
    rooms = [
        payload(share(sum(size for name, size in call.stages if name == "push"), servers))
        for call in calls
    ]
    coming = [receive(world, room, worker, PUSH) for room in rooms]
    arrived = []
    for room, each in zip(rooms, coming, strict=True):
        each.wait()
        arrived.append(now())
        server.apply(len(room))
    return arrived


def _threads(workers: int, serve: Any) -> None:
    """One for each worker; raises what one has raised."""
    with ThreadPoolExecutor(workers) as threads:
        done = [threads.submit(serve, worker) for worker in range(workers)]
    for one in done:
        one.result()
