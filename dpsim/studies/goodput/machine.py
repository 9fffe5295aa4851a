"""What the simulation knows of a job and its cluster."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dpsim.disturbance import Cause, Checkpoints


@dataclass(frozen=True, slots=True)
class Machine:
    """What the simulation knows of a job: ``workers``, what interrupts it, and what then happens.

    ``restart`` are the seconds from a crash until it computes again; ``notice`` those of them that
    a planned stop has not.
    """

    workers: int
    causes: Sequence[Cause]
    plan: Checkpoints
    restart: float
    notice: float
    spares: int
    elastic: bool

    @property
    def rate(self) -> float:
        """Interruptions a second."""
        return sum(cause.rate for cause in self.causes)

    @property
    def first_rate(self) -> float:
        """Those of them that are no relapses."""
        return sum(cause.first_rate for cause in self.causes)
