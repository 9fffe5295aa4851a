"""What an overlap policy may know when it merges and orders operations: when they become ready, and what a collective costs."""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.aggregation import Operation
from dpsim.topology.network import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """``positions``: seconds of computing up to each position of a step; a collective on n bytes takes ``alpha + beta n`` s."""

    positions: FloatArray
    alpha: float
    beta: float

    @property
    def end(self) -> int:
        """The position at which the backward pass ends."""
        return len(self.positions) - 1

    def ready(self, operation: Operation) -> float:
        """Seconds from the start of a step until ``operation`` can start."""
        return float(self.positions[operation.ready])

    def seconds(self, nbytes: int) -> float:
        """How long a collective on ``nbytes`` takes."""
        return self.alpha + self.beta * nbytes
