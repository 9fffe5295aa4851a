"""Parameter servers as real ranks.

A thread for each worker receives its shares, applies them in timed waits, and answers.
"""

from __future__ import annotations

import threading
from typing import Any, cast

import torch

from dpsim.engine import Job, StagedCall
from dpsim.strategy.aggregation import ParameterServerConfig
from validate.emulate.clock import now, sleep_until
from validate.emulate.push_pull import (
    GO,
    LEAVE,
    PULL,
    PUSH,
    REPLY,
    payload,
    receive,
    rotate,
    send,
    send_all,
    share,
    wait_all,
)
from validate.ranks.gatekeeper import Gatekeeper, serve_each
from validate.ranks.processes import World

OWN_NUMBERS = 5  # of a reply, before the arrivals: stale, version, taken, released, waited


class Server:
    """One server of ``job``, shared by its threads.

    Its gate is the one that the simulator has for all servers together; here each server decides by
    its own state.
    """

    def __init__(self, job: Job) -> None:
        aggregation = cast("ParameterServerConfig", job.scenario.strategy.aggregation)
        self._rate = aggregation.update_rate
        self._free = 0.0
        self._applying = threading.Lock()
        self._replies: dict[int, tuple[int, int]] = {}
        self.keeper = Gatekeeper(job.gate(), self._reply)

    def apply(self, nbytes: int) -> None:
        """Apply a share, after those that came before it, at the server's rate."""
        # A queue by arithmetic: each share gets the time at which its turn ends, and sleeps without
        # the lock, so that the next one can join meanwhile.
        with self._applying:
            self._free = max(self._free, now()) + nbytes / self._rate
            until = self._free
        sleep_until(until)

    def release(self, worker: int) -> tuple[int, int]:
        """Wait until ``worker`` may continue; return its gradient's staleness and next version."""
        self.keeper.wait(worker)
        return self._replies[worker]

    def _reply(self, worker: int, staleness: int, version: int) -> None:
        self._replies[worker] = staleness, version


def serve_collective_workers(job: Job, world: World, servers: int, steps: int) -> None:
    """Answer each call when all workers' shares of it are applied."""
    server = Server(job)
    schedule = []
    for step in range(steps):
        schedule += [call for call in job.calls(step) if "push" in dict(call.stages)]
    pulls = iter([share(dict(call.stages)["pull"], servers) for call in schedule])
    # Each server begins with another worker, so that answers do not share one worker's link.
    to_all = rotate(range(job.workers), world.rank - job.workers + 1)

    def answer() -> None:
        send_all(world, payload(next(pulls)), to_all, PULL)

    # The last thread to arrive answers for all of them, before any continues.
    met = threading.Barrier(job.workers, answer, world.timeout)

    def serve(worker: int) -> None:
        rooms = [payload(share(dict(call.stages)["push"], servers)) for call in schedule]
        coming: Any = receive(world, rooms[0], worker, PUSH) if rooms else None
        for number in range(len(schedule)):
            coming.wait()
            server.apply(len(rooms[number]))
            # Posted before the answer, as a worker pushes once it has the answer.
            last = number + 1 == len(schedule)
            coming = None if last else receive(world, rooms[number + 1], worker, PUSH)
            met.wait()

    serve_each(job.workers, serve)


def serve_independent_workers(job: Job, world: World, servers: int) -> None:
    """Receive each worker's pushes, and send its next model, until all have left.

    A worker waits as its gate requires in between.
    """
    server, calls = Server(job), job.calls(0)
    pull = sum(nbytes for call in calls for name, nbytes in call.stages if name == "pull")

    def serve(worker: int) -> None:
        word = torch.zeros(1, dtype=torch.int64)
        coming = receive(world, word, worker, GO)
        while True:
            coming.wait()
            if int(word) == LEAVE:
                server.keeper.leave(worker)
                return
            arrived = _receive_all(world, worker, calls, servers, server)
            taken = now()
            server.keeper.hand_over(worker)
            staleness, version = server.release(worker)
            released = now()
            coming = receive(world, word, worker, GO)
            # In float64: in float32, after a day, the clock's seconds have a resolution of only 8
            # ms.
            numbers = torch.tensor(
                [staleness, version, taken, released, released - taken, *arrived],
                dtype=torch.float64,
            )
            replied = send(world, numbers, worker, REPLY)
            pulled = send(world, payload(share(pull, servers)), worker, PULL)
            wait_all([replied, pulled])

    serve_each(job.workers, serve)


def _receive_all(
    world: World, worker: int, calls: tuple[StagedCall, ...], servers: int, server: Server
) -> list[float]:
    """Return when each call's share had arrived, once all are applied."""
    pushes = [sum(size for name, size in call.stages if name == "push") for call in calls]
    rooms = [payload(share(nbytes, servers)) for nbytes in pushes]
    # Post all receives of an iteration at once, since the worker pushes while it computes.
    coming = [receive(world, room, worker, PUSH) for room in rooms]
    arrived = []
    for room, each in zip(rooms, coming, strict=True):
        each.wait()
        arrived.append(now())
        server.apply(len(room))
    return arrived
