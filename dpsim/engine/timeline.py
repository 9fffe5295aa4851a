"""What each worker's streams did in the steps that are recorded, from when to when."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from typing import NamedTuple

from dpsim.base.arrays import FloatArray


class Interval(NamedTuple):
    """What a stream (compute, communication, input) of a worker did between two times (s)."""

    worker: int
    stream: str
    name: str
    start: float
    end: float


class Timeline:
    """Collects the intervals of the steps in ``steps`` (warm-up counted), by step.

    Only of workers below ``workers``; times are from the start of the run.
    """

    def __init__(self, steps: range, workers: int) -> None:
        self.steps = steps
        self.workers = workers
        self._single: dict[int, list[Interval]] = defaultdict(list)
        # One entry for all workers. Most are never looked at, so they are spread out when asked
        # for.
        self._of_all: dict[int, list[tuple[str, str, FloatArray, FloatArray]]] = defaultdict(list)

    def add(self, step: int, stream: str, name: str, starts: FloatArray, ends: FloatArray) -> None:
        """Note an interval of every worker (vectors over them)."""
        if step in self.steps:
            shown = slice(self.workers)
            self._of_all[step].append((stream, name, starts[shown].copy(), ends[shown].copy()))

    def noted(self, step: int) -> int:
        """How many intervals of all workers have been noted in ``step``."""
        return len(self._of_all[step])

    def repeat(self, step: int, noted: slice, shift: float, times: int) -> None:
        """Note those of ``noted`` again, each ``shift`` s later than the time before."""
        some = self._of_all[step][noted]
        for time in range(1, times + 1):
            late = time * shift
            self._of_all[step] += [
                (stream, name, starts + late, ends + late) for stream, name, starts, ends in some
            ]

    def add_one(
        self, step: int, worker: int, stream: str, name: str, start: float, end: float
    ) -> None:
        """Note an interval of one worker."""
        if step in self.steps and worker < self.workers:
            self._single[step].append(Interval(worker, stream, name, start, end))

    def intervals(self, steps: Iterable[int], workers: Collection[int]) -> list[Interval]:
        """Those of ``steps`` and of ``workers``, by worker, stream and time.

        What took no time is left out.
        """
        found = [
            each
            for step in steps
            for each in (*self._single[step], *self._spread_out(step, workers))
            if each.worker in workers and each.end > each.start
        ]
        return sorted(found, key=lambda each: (each.worker, each.stream, each.start, each.end))

    def _spread_out(self, step: int, workers: Collection[int]) -> Iterator[Interval]:
        """What was noted of all workers at once, as intervals of each of ``workers``."""
        for stream, name, starts, ends in self._of_all[step]:
            shown = [worker for worker in workers if worker < len(starts)]
            each = zip(shown, starts[shown].tolist(), ends[shown].tolist(), strict=True)
            for worker, start, end in each:
                yield Interval(worker, stream, name, start, end)
