"""What the simulation knows of a job and its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from dpsim.disturbance import Cause, Checkpoints, Copies


@dataclass(frozen=True, slots=True)
class Period:
    """From one checkpoint to the next.

    ``segments`` of ``work`` seconds of work, each of ``segment`` seconds with the copy at its end;
    with the checkpoint ``whole`` seconds.
    """

    segments: int
    work: float
    segment: float
    whole: float


@dataclass(frozen=True)
class Machine:
    """What the simulation knows of a job: ``workers``, what interrupts it, and what then happens.

    ``restart`` are the seconds from a crash until it computes again; ``notice`` those of them that
    a planned stop has not. ``copies``: those in neighbours' memory, if there are any.
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
        """Interruptions a second."""
        return sum(cause.rate for cause in self.causes)

    @property
    def first_rate(self) -> float:
        """Those of them that are no relapses."""
        return sum(cause.first_rate for cause in self.causes)

    @cached_property
    def period(self) -> Period:
        """What there is between two checkpoints: one segment, where there are no copies."""
        plan, copies = self.plan, self.copies
        if copies is None:
            return Period(1, plan.interval, plan.interval, plan.period)
        segments = copies.segments(plan.interval)
        work = plan.interval / segments
        segment = work + copies.cost
        return Period(segments, work, segment, segments * segment + plan.cost)
