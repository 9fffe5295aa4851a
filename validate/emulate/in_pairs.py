"""An asynchronous worker of gossip.

It averages its model with one neighbour at a time, which computes meanwhile.

Each worker does one exchange at a time, its own or another's: a lock. The active side of an
exchange takes both locks in the order of ranks, so that there is no deadlock: its own at once or
when the other has granted its own. Words of 8 bytes go between them.
"""

from __future__ import annotations

import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, cast

import torch

from dpsim.disturbance import random_stream
from dpsim.engine import Job, StagedCall, neighbours
from dpsim.strategy.aggregation import GossipConfig
from validate.emulate.alone import MeetingPoint
from validate.emulate.clock import now
from validate.emulate.push_pull import LEAVE, payload, receive, send
from validate.emulate.row import Row
from validate.ranks.processes import World

ASK, GRANT, START, MODEL, BACK = 1006, 1007, 1008, 1009, 1010


class InPairs(MeetingPoint):
    """One worker's exchanges: a thread for its own, and one for those of each other worker."""

    def __init__(self, job: Job, world: World) -> None:
        aggregation = cast("GossipConfig", job.scenario.strategy.aggregation)
        self._world = world
        self._rank = world.rank
        turns = aggregation.turns(job.workers, job.setting.seed)
        self._neighbours = [neighbours(job.workers, turn)[world.rank] for turn in turns]
        self._random = random_stream(job.setting.seed, "gossip", world.rank)
        self._nbytes = sum(nbytes for call in job.calls(0) for _, nbytes in call.stages)
        self._model = payload(self._nbytes)
        self._lock = threading.Lock()
        # How often others have averaged with the model: its versions beside its own.
        self._touched = 0
        self._touched_before = 0
        self._step = 0
        self._own = ThreadPoolExecutor(1)
        self._averaged: Future[tuple[float, float]] | None = None
        others = [rank for rank in range(job.workers) if rank != world.rank]
        self._others = others
        # A thread for each other worker: several may have asked, and all but one wait for the lock.
        self._answering = ThreadPoolExecutor(max(len(others), 1))
        self._answers = [self._answering.submit(self._answer, other) for other in others]

    def begin(self, row: Row) -> None:
        """Begin a step, from which on others' averages count."""
        self._touched_before, self._step = self._touched, row.step

    def ready(self, call: StagedCall) -> None:
        """Begin to average: the model is the only call."""
        self._averaged = self._own.submit(self._average, self._step)

    def end(self, row: Row) -> None:
        """Wait until the model is averaged."""
        assert self._averaged
        began, ended = self._averaged.result()
        row.exposed_comm = now() - row.done
        row.busy = ended - began

    def after(self, row: Row) -> None:
        """Advance the clock: the optimiser's step is taken."""
        row.versions = self._touched - self._touched_before
        row.passed = now()

    def leave(self) -> None:
        """Tell all others, and answer them until each has sent the same."""
        for other in self._others:
            send(self._world, torch.tensor([LEAVE]), other, ASK).wait()
        for answer in self._answers:
            answer.result()

    def _average(self, step: int) -> tuple[float, float]:
        """Exchange models with a partner when both are free.

        Returns when the exchange began and ended.
        """
        choices = self._neighbours[step % len(self._neighbours)]
        if not choices:
            return now(), now()
        partner = int(self._random.choice(choices))
        # The lock of the lower rank is always taken first: otherwise two workers that ask each
        # other, or three in a circle, would hold their own lock and wait forever for the other's.
        first = self._rank < partner
        if first:
            self._lock.acquire()
        try:
            # All receives before the question: the answers may come at once.
            granted = self._expect(partner, GRANT)
            coming = receive(self._world, payload(self._nbytes), partner, BACK)
            send(self._world, torch.tensor([step]), partner, ASK).wait()
            granted.wait()
            if not first:
                self._lock.acquire()
            # Both are held from here on. Only now may the partner send, or its bytes would be on
            # the links before the exchange has begun.
            began = now()
            send(self._world, torch.tensor([step]), partner, START).wait()
            send(self._world, self._model, partner, MODEL).wait()
            coming.wait()
            return began, now()
        finally:
            self._lock.release()

    def _answer(self, other: int) -> None:
        """Exchange models with one active worker whenever it asks: the passive side."""
        word = torch.zeros(1, dtype=torch.int64)
        asked = receive(self._world, word, other, ASK)
        while True:
            asked.wait()
            if int(word) == LEAVE:
                return
            # The lock is granted, not taken by the other side: one process cannot lock another's.
            # It is held until the models are exchanged, so that a model is in one exchange at a
            # time.
            with self._lock:
                coming = receive(self._world, payload(self._nbytes), other, MODEL)
                start = self._expect(other, START)
                asked = receive(self._world, word, other, ASK)
                send(self._world, torch.tensor([0]), other, GRANT).wait()
                start.wait()
                send(self._world, self._model, other, BACK).wait()
                coming.wait()
                self._touched += 1

    def _expect(self, other: int, tag: int) -> Any:
        return receive(self._world, torch.zeros(1, dtype=torch.int64), other, tag)
