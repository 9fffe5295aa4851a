"""The settings of every training run, whatever its method: model, data, optimiser, seed."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt

from dpsim.base.config import Config


class Training(Config):
    """A training run of plain SGD, with momentum where asked, on handwritten digits.

    Every field has a default.
    """

    model: Literal["cnn", "transformer"] = Field(
        default="cnn", description="A small network for 8 x 8 images."
    )
    width: PositiveInt = Field(
        default=8,
        le=4096,
        description="Channels of the CNN's first layer, or the transformer's embedding size.",
    )
    precision: Literal["float32", "float64"] = Field(
        default="float64", description="Format of weights, gradients and messages."
    )
    steps: PositiveInt = Field(default=8, description="Iterations of each worker.")
    batch: PositiveInt = Field(default=16, description="Samples per worker and iteration.")
    learning_rate: PositiveFloat = Field(default=0.1, description="Learning rate.")
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="Momentum of each worker's SGD."
    )
    seed: NonNegativeInt = Field(
        default=0,
        description="Seed of the initial weights, the order of samples and every random choice.",
    )
    pauses_s: tuple[NonNegativeFloat | tuple[NonNegativeFloat, ...], ...] = Field(
        default=(),
        description=(
            "Seconds that worker 0, 1, ... waits before it computes: one value for all "
            "iterations, or one per iteration; none if left out."
        ),
    )

    def pause(self, worker: int, step: int) -> float:
        """Return the seconds that ``worker`` waits in iteration ``step``."""
        own = self.pauses_s[worker] if worker < len(self.pauses_s) else 0.0
        return own[step % len(own)] if isinstance(own, tuple) else own
