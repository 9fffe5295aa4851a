"""What a parameter server holds, and the rule by which it lets workers read.

Stale synchronous parallel, SSP(s).

Clocks count a worker's iterations. A worker reads for iteration t only when every worker has
finished iteration t-s-1. What it reads holds all updates of clocks up to t-s-1, its own always, and
others' as they came, but none beyond t+s-1: an update of clock c waits until all workers have begun
iteration c-s. So SSP(0) is BSP exactly: it reads all updates of clocks up to t-1 and no other.
Without a bound (ASP) nobody waits and nothing is held back. Source: Ho et al., "More effective
distributed ML via a stale synchronous parallel parameter server", NIPS 2013 (the window [t-s,
t+s-1] of best-effort updates).
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from torch import Tensor

READ, PUSHED, UPDATED, DROPPED = "read", "pushed", "updated", "dropped"
Note = Callable[[str, int, int, int], None]


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """What a worker's iteration ``clock`` adds to the weights."""

    worker: int
    clock: int
    change: Tensor


class ServerState:
    """Weights that ``workers`` read and add to, at most ``staleness`` clocks apart (None: any);
    called from a thread per worker.

    ``scale`` multiplies each update. Whoever waits for more than ``patience_s`` gets a TimeoutError
    that says for whom.
    """

    def __init__(
        self,
        weights: Tensor,
        workers: int,
        staleness: int | None,
        note: Note,
        scale: float = 1.0,
        patience_s: float = 60.0,
    ) -> None:
        self.weights, self.staleness, self.scale, self.patience_s = (
            weights,
            staleness,
            scale,
            patience_s,
        )
        self.version = 0
        self._note = note
        self._begun = [0] * workers
        self._finished = [0] * workers
        self._held: list[Update] = []
        self._changed = threading.Condition()

    def read(self, worker: int) -> Tensor:
        """A copy of the weights for the worker's next iteration, when it may begin."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._may_begin(worker), self.patience_s):
                slowest = min(range(len(self._finished)), key=self._finished.__getitem__)
                raise TimeoutError(
                    f"worker {worker} has waited {self.patience_s:g} s for worker {slowest}"
                )
            self._note(READ, worker, self._begun[worker], self.version)
            self._begun[worker] += 1
            copy = self.weights.clone()
            self._apply_what_may_be()
            self._changed.notify_all()
            return copy

    def push(self, worker: int, change: Tensor) -> None:
        """The worker's iteration is over, and adds ``change``, now or when it may be seen."""
        with self._changed:
            self._note(PUSHED, worker, self._finished[worker], self.version)
            self._held.append(Update(worker, self._finished[worker], change))
            self._finished[worker] += 1
            self._apply_what_may_be()
            self._changed.notify_all()

    def _may_begin(self, worker: int) -> bool:
        return self.staleness is None or self._begun[worker] - min(self._finished) <= self.staleness

    def _may_be_seen(self, update: Update) -> bool:
        return self.staleness is None or update.clock - min(self._begun) < self.staleness

    def _apply_what_may_be(self) -> None:
        waiting, self._held = self._held, []
        for update in waiting:
            if self._may_be_seen(update):
                self.weights.add_(update.change, alpha=self.scale)
                self.version += 1
                self._note(UPDATED, update.worker, update.clock, self.version)
            else:
                self._held.append(update)


def serve_each(workers: int, serve: Callable[[int], None]) -> None:
    """Serve all workers at once, each in a thread; raises what a thread has raised."""
    with ThreadPoolExecutor(workers) as threads:
        done = [threads.submit(serve, worker) for worker in range(workers)]
    for one in done:
        one.result()
