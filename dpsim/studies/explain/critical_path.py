"""The critical path of a step: a chain of intervals, each of which waits for the previous one.

From a worker's end of the step the path follows back what ended last: computing, a transfer, or a
wait. A collective starts when the last worker enters it, so the path moves to that worker.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.engine import Interval, Run

KINDS = ("compute", "input", "encode", "communication", "waiting")
_TOLERANCE = 1e-9  # share of the step; closer times are equal


class Segment(NamedTuple):
    """A segment of the path: ``worker`` spent ``seconds`` on ``name``, of a kind in `KINDS`."""

    kind: str
    name: str
    worker: int
    start_s: float
    seconds: float


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The critical path of a step (0: the first after warm-up), earliest segment first.

    The path ends at ``worker``.
    """

    step: int
    worker: int
    segments: tuple[Segment, ...]

    @property
    def seconds(self) -> float:
        """The length of the path, in s."""
        return sum(segment.seconds for segment in self.segments)

    @property
    def by_kind(self) -> dict[str, float]:
        """The seconds of each kind."""
        return {
            kind: sum(segment.seconds for segment in self.segments if segment.kind == kind)
            for kind in KINDS
        }

    def to_json(self) -> dict[str, Any]:
        """Return the object ``critical_path`` of ``dpsim explain --json``."""
        return {
            "step": self.step,
            "worker": self.worker,
            "seconds": self.seconds,
            "by_kind_s": self.by_kind,
            "segments": [each._asdict() for each in self.segments],
        }


def critical_path(run: Run, step: int) -> CriticalPath:
    """Return the critical path of the recorded step ``step`` of ``run``, over all workers.

    The path ends at the last worker, or at a typical one if workers are independent.
    """
    number = run.scenario.run.warmup + step
    lengths = run.all_steps.step[number]
    ends = run.all_steps.step[: number + 1].sum(axis=0)
    # No other worker waited for the last one.
    if run.job.independent_workers:
        chosen = int(np.abs(lengths - np.median(lengths)).argmin())
    else:
        chosen = int(ends.argmax())
    # In gossip, transfers of one name are between neighbours, not one collective.
    of_neighbours = not run.scenario.strategy.aggregation.one_version
    segments = walk_back(
        run.intervals(step),
        ends - lengths,
        float(ends[chosen]),
        chosen,
        _TOLERANCE * float(lengths.max()),
        is_collective=not run.job.independent_workers and not of_neighbours,
    )
    return CriticalPath(step, chosen, segments)


class _StepIntervals:
    """The intervals of a step; times closer than ``close`` are equal."""

    def __init__(self, intervals: Sequence[Interval], close: float) -> None:
        self.close = close
        self._by_worker = {
            worker: list(own) for worker, own in groupby(intervals, lambda each: each.worker)
        }
        self._called: dict[str, list[Interval]] = {}
        for each in intervals:
            if each.stream == "communication":
                self._called.setdefault(each.name, []).append(each)

    def ending(self, worker: int, time: float) -> Interval | None:
        """Return the interval of ``worker`` that ended at ``time``, preferably computing."""
        candidates = []
        for each in self._by_worker.get(worker, ()):
            # Skip an interval without length, or the walk would not end.
            if abs(each.end - time) <= self.close < time - each.start:
                candidates.append(each)
        if not candidates:
            return None

        # Take the latest start, so that the walk skips nothing in between.
        return min(candidates, key=lambda each: (each.stream == "communication", -each.start))

    def before(self, worker: int, time: float) -> float:
        """Return the last end of an interval of ``worker`` before ``time``."""
        ends = [each.end for each in self._by_worker.get(worker, ())]
        return max((end for end in ends if end < time - self.close), default=-np.inf)

    def last_to_enter(self, collective: Interval) -> Interval:
        """Return the interval of the last worker to enter a collective."""
        # Intervals that begin after the end are of another collective with this name.
        latest = collective.end - self.close
        entered = [each for each in self._called[collective.name] if each.start < latest]
        return max(entered, key=lambda each: each.start, default=collective)


def walk_back(
    intervals: Sequence[Interval],
    starts: FloatArray,
    time: float,
    worker: int,
    close: float,
    *,
    is_collective: bool,
) -> tuple[Segment, ...]:
    """Return the path from ``time`` at ``worker`` back to the start of the step, earliest first.

    ``starts`` (s): when each worker began the step. Times closer than ``close`` are equal.
    ``is_collective``: transfers of one name are one collective of all workers.
    """
    step, path = _StepIntervals(intervals, close), list[Segment]()
    begin = float(starts.min())

    # Each iteration goes back by more than `close`, or to a worker's start, so the walk ends.
    while time > starts[worker] + step.close:
        ended = step.ending(worker, time)
        if ended is None:
            since = max(step.before(worker, time), float(starts[worker]))
            path.append(Segment("waiting", "waiting", worker, since - begin, time - since))
            time = since
            continue
        if ended.stream == "communication" and is_collective:
            ended = step.last_to_enter(ended)
        # A transfer may have begun in the previous step.
        since = max(ended.start, float(starts[ended.worker]))
        path.append(Segment(_kind(ended), ended.name, ended.worker, since - begin, time - since))
        time, worker = since, ended.worker
    return tuple(_merge(path[::-1]))


def _kind(interval: Interval) -> str:
    if interval.stream == "compute" and interval.name.partition(" ")[0] in ("encode", "decode"):
        return "encode"
    return interval.stream


def _merge(segments: Sequence[Segment]) -> list[Segment]:
    merged = []
    for _, group in groupby(segments, lambda each: (each.kind, each.name, each.worker)):
        parts = list(group)
        seconds = sum(each.seconds for each in parts)
        merged.append(parts[0]._replace(seconds=seconds))
    return merged
