"""What a step waits for: the chain of intervals that each had to end before the next began.

From a worker's end of the step the path goes back through whatever ended last: computing, a
transfer, or a wait. A collective of all workers began with the last of them, so there the path goes
over to that one.
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
_CLOSE = 1e-9  # of the step, below which two times are one


class Segment(NamedTuple):
    """A piece of the path: ``worker`` spent ``seconds`` on ``name``.

    ``start`` is in s after the step began; ``kind`` is one of `KINDS`.
    """

    kind: str
    name: str
    worker: int
    start: float
    seconds: float


@dataclass(frozen=True, slots=True)
class CriticalPath:
    """The critical path of a step (0: the first after warm-up), earliest segment first.

    It ends at ``worker``.
    """

    step: int
    worker: int
    segments: tuple[Segment, ...]

    @property
    def seconds(self) -> float:
        """Its length."""
        return sum(segment.seconds for segment in self.segments)

    @property
    def by_kind(self) -> dict[str, float]:
        """Seconds of each kind."""
        return {
            kind: sum(segment.seconds for segment in self.segments if segment.kind == kind)
            for kind in KINDS
        }

    def to_json(self) -> dict[str, Any]:
        """The object ``critical_path`` of ``dpsim explain --json``."""
        return {
            "step": self.step,
            "worker": self.worker,
            "seconds": self.seconds,
            "by_kind_s": self.by_kind,
            "segments": [
                {
                    "kind": each.kind,
                    "name": each.name,
                    "worker": each.worker,
                    "start_s": each.start,
                    "seconds": each.seconds,
                }
                for each in self.segments
            ],
        }


def critical_path(run: Run, step: int) -> CriticalPath:
    """The path of step ``step`` of ``run``, one that it has recorded, of all workers.

    It ends at the worker that ends last, or at a typical one where each goes its own way.
    """
    number = run.scenario.run.warmup + step
    lengths = run.all_steps.step[number]
    ends = run.all_steps.step[: number + 1].sum(axis=0)
    # Workers that act alone have no common end: the last to end is merely the slowest one, and no
    # other waited for it.
    if run.job.acts_alone:
        chosen = int(np.abs(lengths - np.median(lengths)).argmin())
    else:
        chosen = int(ends.argmax())
    # In gossip, transfers of one name are many meetings of neighbours, not one collective.
    of_neighbours = not run.scenario.strategy.aggregation.one_version
    segments = walk_back(
        run.intervals(step),
        ends - lengths,
        float(ends[chosen]),
        chosen,
        _CLOSE * float(lengths.max()),
        meets_all=not run.job.acts_alone and not of_neighbours,
    )
    return CriticalPath(step, chosen, segments)


class _StepIntervals:
    """The intervals of a step; times closer than ``close`` are one."""

    def __init__(self, intervals: Sequence[Interval], close: float) -> None:
        self.close = close
        self._of = {
            worker: list(own) for worker, own in groupby(intervals, lambda each: each.worker)
        }
        self._called: dict[str, list[Interval]] = {}
        for each in intervals:
            if each.stream == "communication":
                self._called.setdefault(each.name, []).append(each)

    def ending(self, worker: int, time: float) -> Interval | None:
        """What of ``worker`` ended at ``time``: what it computed rather than what it sent."""
        there = []
        for each in self._of.get(worker, ()):
            # Of those without length none leads back in time, and the walk would not end.
            if abs(each.end - time) <= self.close < time - each.start:
                there.append(each)
        if not there:
            return None

        # Of several that end together the one that began last, so that the walk takes short steps
        # and skips nothing that happened in between.
        return min(there, key=lambda each: (each.stream == "communication", -each.start))

    def before(self, worker: int, time: float) -> float:
        """When something of ``worker`` last ended before ``time``."""
        ends = [each.end for each in self._of.get(worker, ())]
        return max((end for end in ends if end < time - self.close), default=-np.inf)

    def last_to_enter(self, collective: Interval) -> Interval:
        """The worker for which a collective waited."""
        # What began after it ended is another of the same name.
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
    meets_all: bool,
) -> tuple[Segment, ...]:
    """The path from ``time`` at ``worker`` back to the start of the step, earliest first.

    Alike segments in a row are one.

    ``starts`` (s): when each worker began the step. Times closer than ``close`` are one.
    ``meets_all``: a transfer of a name is one collective of all workers.
    """
    step, found = _StepIntervals(intervals, close), list[Segment]()
    begin = float(starts.min())

    # Each turn leads back in time by more than `close`, or to a worker's start: the walk ends.
    while time > starts[worker] + step.close:
        ended = step.ending(worker, time)
        if ended is None:
            since = max(step.before(worker, time), float(starts[worker]))
            found.append(Segment("waiting", "waiting", worker, since - begin, time - since))
            time = since
            continue
        if ended.stream == "communication" and meets_all:
            ended = step.last_to_enter(ended)
        # A transfer may have begun in the step before; the path of this step begins with the step.
        since = max(ended.start, float(starts[ended.worker]))
        found.append(Segment(_kind(ended), ended.name, ended.worker, since - begin, time - since))
        time, worker = since, ended.worker
    return tuple(_merged(found[::-1]))


def _kind(interval: Interval) -> str:
    if interval.stream == "compute" and interval.name.partition(" ")[0] in ("encode", "decode"):
        return "encode"
    return interval.stream


def _merged(segments: Sequence[Segment]) -> list[Segment]:
    found = []
    for _, group in groupby(segments, lambda each: (each.kind, each.name, each.worker)):
        alike = list(group)
        seconds = sum(each.seconds for each in alike)
        found.append(alike[0]._replace(seconds=seconds))
    return found
