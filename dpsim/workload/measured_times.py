"""Measured seconds of layers, interpolated between measured batch sizes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeFloat, PositiveInt, model_validator

from dpsim.base.config import Config

_PerLayer = tuple[NonNegativeFloat, ...]


class MeasuredTimes(Config):
    """Seconds of each layer at one or several batch sizes: a row per size, a number per layer."""

    batch_sizes: tuple[PositiveInt, ...] = Field(
        min_length=1, description="Samples per GPU of each row, in ascending order."
    )
    forward_s: tuple[_PerLayer, ...] = Field(description="Seconds of each layer's forward pass.")
    backward_s: tuple[_PerLayer, ...] = Field(description="Seconds of each layer's backward pass.")
    gradient_ready_s: tuple[_PerLayer, ...] = Field(
        default=(),
        description=(
            "Seconds from the start of the backward pass until each layer's gradient was ready."
        ),
    )
    optimizer_s: tuple[NonNegativeFloat, ...] = Field(
        default=(), description="Seconds of the update, for each batch size."
    )
    steps_s: tuple[NonNegativeFloat, ...] = Field(
        default=(),
        description="Seconds of all layers and the update in each of the averaged steps.",
    )
    device: str = Field(default="", description="Device of the measurement.")

    @model_validator(mode="after")
    def _check_shape(self) -> MeasuredTimes:
        rows, layers = len(self.batch_sizes), len(self.forward_s[0]) if self.forward_s else 0
        if any(
            one >= next_ for one, next_ in zip(self.batch_sizes, self.batch_sizes[1:], strict=False)
        ):
            raise ValueError(f"batch_sizes must rise, but got {list(self.batch_sizes)}")
        for name in ("forward_s", "backward_s", "gradient_ready_s"):
            table = getattr(self, name)
            # Optional: only traces know when gradients were ready.
            if (table or name != "gradient_ready_s") and [len(row) for row in table] != [
                layers
            ] * rows:
                raise ValueError(
                    f"{name} must have {rows} rows (one a batch size) of {layers} layers"
                )
        if self.optimizer_s and len(self.optimizer_s) != rows:
            raise ValueError(
                f"optimizer_s must have {rows} numbers (one a batch size), but got "
                f"{len(self.optimizer_s)}"
            )
        return self

    def forward(self, batch: int) -> NDArray[np.float64]:
        """Return the seconds of each layer's forward pass over ``batch`` samples (`between`)."""
        return between(np.array(self.batch_sizes, dtype=float), np.array(self.forward_s), batch)

    def backward(self, batch: int) -> NDArray[np.float64]:
        """Return the seconds of each layer's backward pass over ``batch`` samples."""
        return between(np.array(self.batch_sizes, dtype=float), np.array(self.backward_s), batch)

    def optimizer(self) -> float | None:
        """Return the median seconds of the update (at any batch size), if measured."""
        return float(np.median(self.optimizer_s)) if self.optimizer_s else None

    @property
    def deviation(self) -> float:
        """The standard deviation of ln(step) over the measured steps; 0 if unknown."""
        steps = np.array(self.steps_s)
        return float(np.log(steps).std(ddof=1)) if len(steps) > 1 and steps.all() else 0.0

    def scaled(self, factor: float) -> MeasuredTimes:
        """Return the times multiplied by ``factor``."""
        update: dict[str, object] = {
            name: tuple(factor * seconds for seconds in getattr(self, name))
            for name in ("optimizer_s", "steps_s")
        }
        for name in ("forward_s", "backward_s", "gradient_ready_s"):
            rows: tuple[tuple[float, ...], ...] = getattr(self, name)
            update[name] = tuple(tuple(factor * seconds for seconds in row) for row in rows)
        return self.model_copy(update=update)


def between(
    sizes: NDArray[np.float64], seconds: NDArray[np.float64], batch: int
) -> NDArray[np.float64]:
    """Interpolate the rows of ``seconds`` (batch sizes x layers) at ``batch``.

    Linear between two sizes, and proportional to the batch above the largest. Below the smallest it
    continues the line of the first two, between a proportional share of the smallest's time and
    that time; with a single size it is proportional.
    """
    if batch >= sizes[-1]:
        return np.asarray(seconds[-1] * (batch / sizes[-1]))
    if batch <= sizes[0]:
        share = seconds[0] * (batch / sizes[0])
        if len(sizes) == 1:
            return np.asarray(share)
        # The line keeps a pass's fixed cost. Limits, because noise may tilt it if sizes are close.
        slope = (seconds[1] - seconds[0]) / (sizes[1] - sizes[0])
        return np.asarray(np.clip(seconds[0] - slope * (sizes[0] - batch), share, seconds[0]))

    right = int(np.searchsorted(sizes, batch))
    weight = (batch - sizes[right - 1]) / (sizes[right] - sizes[right - 1])
    return np.asarray((1 - weight) * seconds[right - 1] + weight * seconds[right])
