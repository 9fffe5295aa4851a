"""The parameters of a simulated job and its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dpsim.disturbance import Cause, Checkpoints, Copies


@dataclass(frozen=True, slots=True)
class Period:
    """The time from one checkpoint to the next.

    It has ``segments`` segments of ``work`` seconds of work, each ``segment`` seconds long
    including its copy, and is ``whole`` seconds long including the checkpoint.
    """

    segments: int
    work: float
    segment: float
    whole: float


@dataclass(frozen=True)
class Machine:
    """The parameters of a job: ``workers``, causes of interruptions, and recovery.

    ``restart`` are the seconds from a crash until the job computes again, of which a planned stop
    saves ``notice``. ``copies`` are the checkpoints in neighbours' memory, if any.
    """

    workers: int
    causes: Sequence[Cause]
    plan: Checkpoints
    restart: float
    notice: float
    spares: int
    elastic: bool
    copies: Copies | None = None

    @property
    def rate(self) -> float:
        """The interruptions per second."""
        return sum(cause.rate for cause in self.causes)

    @property
    def first_rate(self) -> float:
        """The interruptions per second, without relapses."""
        return sum(cause.first_rate for cause in self.causes)

    @cached_property
    def period(self) -> Period:
        """The period between two checkpoints; a single segment without copies."""
        plan, copies = self.plan, self.copies
        if copies is None:
            return Period(1, plan.interval, plan.interval, plan.period)
        segments = copies.segments(plan.interval)
        work = plan.interval / segments
        segment = work + copies.cost
        return Period(segments, work, segment, segments * segment + plan.cost)
