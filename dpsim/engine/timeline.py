"""The activity of each worker's streams in the recorded steps, as intervals."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from dpsim.base.arrays import FloatArray


class Interval(NamedTuple):
    """An activity of a worker's stream (compute, communication, input) between two times (s)."""

    worker: int
    stream: str
    name: str
    start: float
    end: float


class Timeline:
    """Collector of the intervals of the steps in ``steps`` (warm-up counted), by step.

    Keeps only workers below ``workers``; times are from the start of the run.
    """

    def __init__(self, steps: range, workers: int) -> None:
        self.steps = steps
        self.workers = workers
        self._single: dict[int, list[Interval]] = defaultdict(list)
        # One entry for all workers. Most are never read, so they are expanded on demand.
        self._shared: dict[int, list[tuple[str, str, FloatArray, FloatArray]]] = defaultdict(list)

    def add(self, step: int, stream: str, name: str, starts: FloatArray, ends: FloatArray) -> None:
        """Add an interval of every worker (vectors over workers)."""
        if step in self.steps:
            shown = slice(self.workers)
            self._shared[step].append((stream, name, starts[shown].copy(), ends[shown].copy()))

    def recorded(self, step: int) -> int:
        """Return how many intervals of all workers have been added in ``step``."""
        return len(self._shared[step])

    def repeat(self, step: int, recorded: slice, shift: float, times: int) -> None:
        """Add the intervals ``recorded`` again ``times`` times, each time ``shift`` s later."""
        kept = self._shared[step][recorded]
        for time in range(1, times + 1):
            late = time * shift
            self._shared[step] += [
                (stream, name, starts + late, ends + late) for stream, name, starts, ends in kept
            ]

    def add_one(
        self, step: int, worker: int, stream: str, name: str, start: float, end: float
    ) -> None:
        """Add an interval of one worker."""
        if step in self.steps and worker < self.workers:
            self._single[step].append(Interval(worker, stream, name, start, end))

    def intervals(self, steps: Iterable[int], workers: Collection[int]) -> list[Interval]:
        """Return the intervals of ``steps`` and ``workers``, by worker, stream and time.

        Intervals of no length are left out.
        """
        found = [
            each
            for step in steps
            for each in (*self._single[step], *self._expanded(step, workers))
            if each.worker in workers and each.end > each.start
        ]
        return sorted(found, key=lambda each: (each.worker, each.stream, each.start, each.end))

    def _expanded(self, step: int, workers: Collection[int]) -> Iterator[Interval]:
        """Yield the entries for all workers as intervals of each of ``workers``."""
        for stream, name, starts, ends in self._shared[step]:
            shown = [worker for worker in workers if worker < len(starts)]
            each = zip(shown, starts[shown].tolist(), ends[shown].tolist(), strict=True)
            for worker, start, end in each:
                yield Interval(worker, stream, name, start, end)
