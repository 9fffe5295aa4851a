"""The ``replay`` part of a scenario.

A small model is trained in the simulated time of the large one.
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, NonNegativeFloat, NonNegativeInt, PositiveInt

from dpsim.base.config import Config


class ReplayConfig(Config):
    """SGD, with momentum if set, on handwritten digits.

    Workers and their timing are the scenario's.
    """

    model: Literal["softmax", "mlp"] = Field(
        default="mlp", description="Softmax regression, or a perceptron with one hidden layer."
    )
    batch: Annotated[int, Field(ge=1, le=65_536)] = Field(
        default=8,
        description="Samples of a learner's iteration, instead of workload.batch_per_gpu.",
    )
    steps: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        default=300,
        description="Iterations of each worker, instead of run.steps; there is no warm-up.",
    )
    learning_rate: NonNegativeFloat = Field(
        default=0.1, description="Learning rate: each update subtracts it times the mean gradient."
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="Momentum of SGD: v = momentum v + gradient."
    )
    reduction: Literal["mean", "sum"] = Field(
        default="mean",
        description=(
            "Whether an update is the mean or the sum of the workers' gradients. An asynchronous "
            "gradient is scaled by 1 / workers or applied in full."
        ),
    )
    target_accuracy: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.9,
        description="Test accuracy, as a fraction, that the time to target is measured to.",
    )
    seed: NonNegativeInt | None = Field(
        default=None,
        description="Seed of weights, sample order and random codecs; run.seed if left out.",
    )
    own_start: bool = Field(
        default=False,
        description="Workers that hold their own models start from different weights.",
    )
    points: PositiveInt = Field(
        default=100, le=100_000, description="How often loss and accuracy are measured."
    )
