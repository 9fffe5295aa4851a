"""The outer step of groups of workers, as in DiLoCo, with its own learning rate and period."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from dpsim.base.config import Config
from dpsim.strategy.compression import CompressionConfig, NoCompressionConfig

_FLOAT = 4  # bytes: outer weights and momenta are fp32
# DiLoCo's outer rate for Nesterov; plain SGD at rate 1 averages the models.
_RATES = {"nesterov": 0.7, "sgd": 1.0}
_WITH_MOMENTA = ("nesterov",)


class OuterConfig(Config):
    """The outer step over all groups."""

    every: PositiveInt = Field(
        default=1, description="K: number of averagings inside groups between two outer steps."
    )
    optimizer: Literal["nesterov", "sgd"] = Field(
        default="nesterov",
        description=(
            "Optimiser that takes the groups' mean change as a gradient; sgd with a learning rate "
            "of 1 averages the models."
        ),
    )
    learning_rate: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="Outer learning rate in replay; if left out, 0.7 with nesterov and 1 with sgd.",
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.9, description="Nesterov momentum in replay."
    )
    fragments: PositiveInt = Field(
        default=1,
        le=1000,
        description=(
            "Number of model fragments that are sent at different times, evenly over the period."
        ),
    )
    overlap: NonNegativeInt = Field(
        default=0,
        le=1_000_000,
        description="Number of steps that overlap with the sending of a fragment.",
    )
    compression: CompressionConfig = Field(
        default=NoCompressionConfig(kind="none"),
        description="Compression of the groups' changes before they are sent.",
    )

    @property
    def states(self) -> int:
        """Numbers kept for each parameter: the outer weights, and momenta if any."""
        return 2 if self.optimizer in _WITH_MOMENTA else 1

    @property
    def state_bytes(self) -> int:
        """Bytes kept for each parameter."""
        return _FLOAT * self.states

    @property
    def rate(self) -> float:
        """The learning rate, by default that of the optimiser."""
        return self.learning_rate or _RATES[self.optimizer]

    @property
    def momentum_factor(self) -> float:
        """The momentum, 0 for an optimiser without one."""
        return self.momentum if self.optimizer in _WITH_MOMENTA else 0.0

    def parts(self, elements: int) -> list[slice]:
        """Return the slice of each fragment of a model of that many elements."""
        # Differences of rounded bounds add up to the whole model.
        bounds = [elements * number // self.fragments for number in range(self.fragments + 1)]
        return [slice(*ends) for ends in pairwise(bounds)]

    def due(self, averaging: int) -> tuple[int, ...]:
        """Return the fragments that are sent after an averaging (counted from 1).

        Fragment i is sent (i + 1) K / F averagings into each period, rounded up.
        """
        index = (averaging - 1) % self.every
        # In integers: a rounded fraction might send a fragment twice, or never.
        first = index * self.fragments // self.every
        return tuple(range(first, (index + 1) * self.fragments // self.every))
