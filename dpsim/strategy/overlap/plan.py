"""What an overlap policy is, and what it may know.

When operations become ready, and what a collective costs.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

from dpsim.base.arrays import FloatArray
from dpsim.base.config import Config
from dpsim.strategy.aggregation import Operation


@dataclass(frozen=True, slots=True, eq=False)
class Outlook:
    """``positions``.

    Seconds of computing up to each position of a step, the last after the optimiser.

    A collective on n bytes takes ``alpha + beta n`` s.
    """

    positions: FloatArray
    alpha: float
    beta: float

    @property
    def end(self) -> int:
        """The position at which the backward pass ends."""
        return len(self.positions) - 2

    def ready(self, operation: Operation) -> float:
        """Seconds from the start of a step until ``operation`` can start."""
        return float(self.positions[operation.ready])

    def seconds(self, nbytes: int) -> float:
        """How long a collective on ``nbytes`` takes."""
        return self.alpha + self.beta * nbytes


class Overlap(Config):
    """Merges and orders the operations of a step.

    ``beside``: whether communication runs beside computation at all.
    """

    beside: ClassVar[bool] = True

    @abstractmethod
    def plan(self, operations: tuple[Operation, ...], outlook: Outlook) -> tuple[Operation, ...]:
        """The ``operations`` on gradients, merged and in order."""

    def step(self, operations: tuple[Operation, ...], outlook: Outlook) -> tuple[Operation, ...]:
        """All operations of a step in the order in which they become ready, those on gradients as
        planned.
        """
        gradients = tuple(op for op in operations if op.payload == "gradients")
        others = tuple(
            op if self.beside else replace(op, ready=op.needed)
            for op in operations
            if op.payload != "gradients"
        )
        planned = self.plan(gradients, outlook) if gradients else ()
        return in_order(planned, others)


def in_order(
    planned: tuple[Operation, ...], others: tuple[Operation, ...]
) -> tuple[Operation, ...]:
    """``planned`` in the order that it has, with each of ``others`` before the first that becomes
    ready later than it.
    """
    order = list(planned)
    for operation in others:
        place = next(
            (place for place, other in enumerate(order) if other.ready > operation.ready),
            len(order),
        )
        order.insert(place, operation)
    return tuple(order)
