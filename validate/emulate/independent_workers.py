"""Independent workers as real ranks: at parameter servers, or in pairs.

Like in `dpsim.engine.independent_workers`, a worker that has done its steps continues until all
have done theirs, so that the load on the others stays the same.
"""

from __future__ import annotations

import queue
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from itertools import count
from typing import Any, cast

import numpy as np
import torch

from dpsim.base.arrays import FloatArray
from dpsim.disturbance import random_stream
from dpsim.engine import MOST_ROUNDS, Job, StagedCall, neighbours
from dpsim.strategy.aggregation import GossipConfig
from dpsim.strategy.sync import DROPPED
from validate.emulate.clock import Pace, now
from validate.emulate.push_pull import LEAVE, Client, payload, receive, send
from validate.emulate.row import Row
from validate.emulate.servers import OWN_NUMBERS
from validate.ranks.processes import World

ASK, GRANT, START, MODEL, BACK = 1006, 1007, 1008, 1009, 1010


class Coordinator(ABC):
    """A worker's exchange with others: it hands over its result, and fetches its next model."""

    @abstractmethod
    def begin(self, row: Row) -> None:
        """Begin an iteration."""

    @abstractmethod
    def ready(self, call: StagedCall) -> None:
        """Send ``call``, which is computed and encoded; the worker computes on."""

    @abstractmethod
    def end(self, row: Row) -> None:
        """Hand over a computed step, wait, and fetch; the waits are noted in ``row``."""

    @abstractmethod
    def after(self, row: Row) -> None:
        """Note that the optimiser's step is taken."""

    @abstractmethod
    def leave(self) -> None:
        """End the iterations; returns when the others have all they need of this worker."""


class Over:
    """Whether all workers have done their steps.

    The last of them notes it in the store of all ranks.
    """

    def __init__(self, world: World, workers: int, name: str) -> None:
        self._store = world.store
        self._workers = workers
        self._name = name
        self._over = threading.Event()
        # A waiting thread, since polling the store takes a round trip over the very links that are
        # measured; on a separate connection, which is blocked while it waits.
        self._watch = threading.Thread(
            target=self._wait, args=(world.store.clone(), world.timeout), daemon=True
        )
        self._watch.start()

    def done(self) -> None:
        """Count one worker whose steps are done."""
        if self._store.add(f"{self._name}/done", 1) == self._workers:
            self._store.set(f"{self._name}/over", "over")

    def __bool__(self) -> bool:
        return self._over.is_set()

    def _wait(self, store: object, timeout: float) -> None:
        store.wait([f"{self._name}/over"], timedelta(seconds=timeout))  # type: ignore[attr-defined]
        self._over.set()


class IndependentWorker:
    """One worker of ``job`` and its iterations."""

    def __init__(self, job: Job, rank: int, coordinator: Coordinator, start: float) -> None:
        self._calls = job.calls(0)
        self._positions = job.positions[:, job.kind_of[rank]].tolist()
        self._kind = int(job.kind_of[rank])
        self._loading = None if job.input is None else job.input.of(rank).start()
        self._coordinator = coordinator
        self._pace = Pace(start)
        self._start = start

    def iterate(self, iteration: int, factor: float) -> Row:
        """Run one iteration."""
        row = Row(iteration)
        pace, positions = self._pace, self._positions
        if self._loading is not None:
            # The loader's time counts from the start of the run and is not real time: it is asked
            # for the planned time, not the clock's.
            planned = pace.at - self._start
            taken = float(self._loading.take(np.array([planned]))[0])
            row.input = taken - planned
            pace.spend(row.input)
        row.begin = now()
        self._coordinator.begin(row)
        at = 0
        for call in self._calls:
            pace.spend(factor * (positions[call.ready] - positions[at]))
            at = call.ready
            self._code(row, float(call.encode[self._kind]))
            self._coordinator.ready(call)
        pace.spend(factor * (positions[-2] - positions[at]))
        row.done = now()
        self._coordinator.end(row)
        # The actual waits end here, and the planned times continue from now.
        pace.resume()
        self._code(row, sum(float(call.decode[self._kind]) for call in self._calls))
        pace.spend(factor * (positions[-1] - positions[-2]))
        self._coordinator.after(row)
        row.end = now()
        return row

    def _code(self, row: Row, seconds: float) -> None:
        self._pace.spend(seconds)
        row.encode += seconds


def work_independently(
    job: Job,
    rank: int,
    coordinator: Coordinator,
    over: Over,
    factors: FloatArray,
    start: float,
    report: Callable[[Row], None],
) -> None:
    """Iterate as worker ``rank`` until all workers have done their steps.

    Their number is that of the rows of ``factors``, (steps, workers), one for each iteration.
    """
    worker = IndependentWorker(job, rank, coordinator, start)
    factor_of = factors[:, rank].tolist()
    for iteration in count():
        if iteration == len(factor_of):
            over.done()
        # The simulator's bound, too: beside a long straggler the others would iterate without end.
        if over or iteration >= MOST_ROUNDS * len(factor_of):
            break
        report(worker.iterate(iteration, factor_of[iteration % len(factor_of)]))
    coordinator.leave()


class ServerCoordinator(Coordinator):
    """A worker under SSP or ASP, or one of backup workers.

    A thread sends pushes one after another; a pull ends the iteration.

    The recorded wait is the longest of all servers' waits. Versions are those of the first server;
    a gradient is handed over when the last server has it.
    """

    def __init__(self, job: Job, client: Client) -> None:
        self._client = client
        self._calls = len(job.calls(0))
        self._pull = sum(
            nbytes for call in job.calls(0) for name, nbytes in call.stages if name == "pull"
        )
        self._pushed: list[float] = []
        self._replies: Callable[[], Any] = lambda: None
        # A thread sends, since a push returns only when the kernel has taken it, and the worker
        # computes meanwhile. One thread, so that pushes keep their order.
        self._jobs: queue.SimpleQueue[int | None] = queue.SimpleQueue()
        self._failed: BaseException | None = None
        self._thread = threading.Thread(target=self._push, daemon=True)
        self._thread.start()

    def begin(self, row: Row) -> None:
        """Tell the servers, and post receives for their answers."""
        # Receives are posted before anything is sent: gloo's bytes start when the receive for them
        # is announced, so that a late one costs a round trip, which would be measured.
        self._pushed.clear()
        self._replies = self._client.expect_reply(OWN_NUMBERS + self._calls)
        self._client.expect(self._pull)
        self._client.go(row.step)

    def ready(self, call: StagedCall) -> None:
        """Push the call, after earlier pushes."""
        self._jobs.put(sum(nbytes for name, nbytes in call.stages if name == "push"))

    def end(self, row: Row) -> None:
        """Wait until the gradient is applied, the worker may continue, and it has pulled."""
        replies = self._replies()
        self._client.pull()
        ended = now()
        if self._failed is not None:
            raise self._failed
        stale, _, taken, released, waited = replies[:, :OWN_NUMBERS].T
        # Servers decide separately, and a gradient that any server drops counts as dropped.
        row.versions = int(stale[0]) if (stale != DROPPED).all() else DROPPED
        row.passed = float(taken.max())
        row.straggler_wait = float(waited.max())
        row.exposed_comm = max(ended - row.done - row.straggler_wait, 0.0)
        # A push keeps the network busy until the last server has it, a pull from the last server's
        # release on. Processes of one machine share the clock of both times.
        arrived = replies[:, OWN_NUMBERS:].max(axis=0)
        pushes = [max(end - begin, 0.0) for begin, end in zip(self._pushed, arrived, strict=True)]
        row.busy = float(sum(pushes))
        row.busy += ended - float(released.max())

    def after(self, row: Row) -> None:
        """Do nothing: the servers have taken the optimiser's step."""

    def leave(self) -> None:
        """End the thread, and notify the servers."""
        self._jobs.put(None)
        self._thread.join()
        self._client.go(LEAVE)

    def _push(self) -> None:
        try:
            while (nbytes := self._jobs.get()) is not None:
                self._pushed.append(now())
                self._client.push(nbytes)
        except BaseException as error:  # raised by `end`, on the worker's own thread
            self._failed = error


class PairwiseCoordinator(Coordinator):
    """A worker of asynchronous gossip, which averages with one neighbour at a time.

    It computes meanwhile: one thread makes its own exchanges, and one more thread serves each other
    worker. Each worker does one exchange at a time, its own or another's: a lock. The active side
    of an exchange takes both locks in the order of ranks, so that there is no deadlock: its own at
    once or when the other has granted its own. Words of 8 bytes go between them.
    """

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
            # Post all receives before asking, since the answers may come at once.
            granted = self._expect(partner, GRANT)
            coming = receive(self._world, payload(self._nbytes), partner, BACK)
            send(self._world, torch.tensor([step]), partner, ASK).wait()
            granted.wait()
            if not first:
                self._lock.acquire()
            # Both workers' locks are held now. The partner may not send earlier, or its bytes would
            # be on the links before the exchange has begun.
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
        request = receive(self._world, word, other, ASK)
        while True:
            request.wait()
            if int(word) == LEAVE:
                return
            # Lock on behalf of the other worker, since a process cannot take another's lock, and
            # until the models are exchanged, since a model may be in one exchange at a time.
            with self._lock:
                coming = receive(self._world, payload(self._nbytes), other, MODEL)
                start = self._expect(other, START)
                request = receive(self._world, word, other, ASK)
                send(self._world, torch.tensor([0]), other, GRANT).wait()
                start.wait()
                send(self._world, self._model, other, BACK).wait()
                coming.wait()
                self._touched += 1

    def _expect(self, other: int, tag: int) -> Any:
        return receive(self._world, torch.zeros(1, dtype=torch.int64), other, tag)
