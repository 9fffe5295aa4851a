"""Gates for multi-threaded servers, with a thread per worker that reports events and waits."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from dpsim.strategy.sync import Gate, GradientOutcome


class Gatekeeper:
    """Holds ``gate`` for the threads of a server.

    A waiting worker is released at the moment when the gate allows it, before any thread can hand
    over more: workers that wait for the same update continue with the same version, however late
    their threads wake up. ``goes_on(worker, staleness, version)`` is called at that moment, with
    the staleness of its last gradient; like the ``count`` of `hand_over` it blocks all others.
    """

    def __init__(self, gate: Gate, goes_on: Callable[[int, int, int], None]) -> None:
        self.gate = gate
        self._goes_on = goes_on
        self._waiting: list[int] = []
        self._changed = threading.Condition()

    def hand_over(
        self, worker: int, count: Callable[[GradientOutcome], None] = lambda outcome: None
    ) -> None:
        """Hand over the gradient of ``worker``; ``count`` is called at once with its outcome."""
        with self._changed:
            count(self.gate.hand_over(worker))
            self._waiting.append(worker)
            self._let_go()

    def wait(self, worker: int, patience_s: float | None = None) -> None:
        """Wait until ``worker`` may continue.

        Raises TimeoutError after ``patience_s``, naming the slowest worker.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: worker not in self._waiting, patience_s):
                slowest = min(range(len(self.gate.clocks)), key=self.gate.clocks.__getitem__)
                raise TimeoutError(
                    f"worker {worker} has waited {patience_s:g} s for others, of whom worker "
                    f"{slowest} is the slowest"
                )

    def leave(self, worker: int) -> None:
        """Remove ``worker``, which must not be waiting and begins no further iteration."""
        with self._changed:
            self.gate.leave(worker)
            self._let_go()

    def _let_go(self) -> None:
        # Iterate over a copy, since released workers are removed from `_waiting`.
        for worker in [each for each in self._waiting if self.gate.may_go_on(each)]:
            staleness = self.gate.staleness(worker)
            self._goes_on(worker, staleness, self.gate.go_on(worker))
            self._waiting.remove(worker)
        self._changed.notify_all()


def serve_each(workers: int, serve: Callable[[int], None]) -> None:
    """Serve all workers at once, each in a thread; raises what a thread has raised."""
    # torch's sends and receives release the interpreter lock while they wait, as sleeps do.
    with ThreadPoolExecutor(workers) as threads:
        done = [threads.submit(serve, worker) for worker in range(workers)]
    for one in done:
        one.result()
