"""Workers that act alone, as real ranks: at parameter servers, or in pairs.

Like in `dpsim.engine.alone`, a worker that has done its steps continues until all have done theirs,
so that the load on the others stays the same.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from itertools import count

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.engine import MOST_ROUNDS, Job, StagedCall
from validate.emulate.clock import Pace, now
from validate.emulate.row import Row
from validate.ranks.processes import World


class MeetingPoint(ABC):
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


class AloneWorker:
    """One worker of ``job`` and its iterations."""

    def __init__(self, job: Job, rank: int, meeting_point: MeetingPoint, start: float) -> None:
        self._calls = job.calls(0)
        self._positions = job.positions[:, job.kind_of[rank]].tolist()
        self._kind = int(job.kind_of[rank])
        self._loading = None if job.input is None else job.input.of(rank).start()
        self._meeting_point = meeting_point
        self._pace = Pace(start)
        self._start = start

    def iterate(self, iteration: int, factor: float) -> Row:
        """Run one iteration."""
        row = Row(iteration)
        pace, positions = self._pace, self._positions
        if self._loading is not None:
            # The loader's time counts from the start of the run and is not real time: it is asked
            # for the planned time, not the clock's.
            asked = pace.at - self._start
            taken = float(self._loading.take(np.array([asked]))[0])
            row.input = taken - asked
            pace.spend(row.input)
        row.begin = now()
        self._meeting_point.begin(row)
        at = 0
        for call in self._calls:
            pace.spend(factor * (positions[call.ready] - positions[at]))
            at = call.ready
            self._code(row, float(call.encode[self._kind]))
            self._meeting_point.ready(call)
        pace.spend(factor * (positions[-2] - positions[at]))
        row.done = now()
        self._meeting_point.end(row)
        # Waits took as long as they took: the plan starts again from now.
        pace.resume()
        self._code(row, sum(float(call.decode[self._kind]) for call in self._calls))
        pace.spend(factor * (positions[-1] - positions[-2]))
        self._meeting_point.after(row)
        row.end = now()
        return row

    def _code(self, row: Row, seconds: float) -> None:
        self._pace.spend(seconds)
        row.encode += seconds


def work_alone(
    job: Job,
    rank: int,
    meeting_point: MeetingPoint,
    over: Over,
    factors: FloatArray,
    start: float,
    say: Callable[[Row], None],
) -> None:
    """Iterate as worker ``rank`` until all workers have done their steps.

    Their number is that of the rows of ``factors``, (steps, workers), one for each iteration.
    """
    worker = AloneWorker(job, rank, meeting_point, start)
    own = factors[:, rank].tolist()
    for iteration in count():
        if iteration == len(own):
            over.done()
        # The simulator's bound, too: beside a long straggler the others would iterate without end.
        if over or iteration >= MOST_ROUNDS * len(own):
            break
        say(worker.iterate(iteration, own[iteration % len(own)]))
    meeting_point.leave()
