"""Profiles of models.

Layers, and where they were measured their times, as a JSON file that imports write and scenarios
name.
"""

from __future__ import annotations

import os
from functools import lru_cache
from typing import Annotated, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    Field,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveInt,
    ValidationError,
    model_validator,
)

from dpsim.base.config import Config, first_problem
from dpsim.base.errors import DpsimError
from dpsim.base.files import read_limited
from dpsim.workload.layer import Kind, Layer, Model

MOST_BYTES = 64 * 2**20
_MOST_KEPT = 2**18  # bytes of a profile that is kept for whoever asks for it again

_PerLayer = tuple[NonNegativeFloat, ...]

UNITS = {
    "parameters, borrowed": "elements",
    "forward_flop, backward_flop": "FLOP per sample",
    "forward_traffic, backward_traffic, activations": "elements per sample",
    "names that end in _s": "seconds for the whole batch",
    "names that end in _bytes": "bytes",
}


class MeasuredTimes(Config):
    """Seconds of each layer at one or several batch sizes.

    A row for each batch size, in it a number for each layer.
    """

    batch_sizes: tuple[PositiveInt, ...] = Field(
        min_length=1, description="Samples per GPU of each row, rising."
    )
    forward_s: tuple[_PerLayer, ...] = Field(description="Seconds of each layer's forward pass.")
    backward_s: tuple[_PerLayer, ...] = Field(description="Seconds of each layer's backward pass.")
    gradient_ready_s: tuple[_PerLayer, ...] = Field(
        default=(),
        description=(
            "Seconds from the start of the backward pass until each layer's gradient was there."
        ),
    )
    optimizer_s: tuple[NonNegativeFloat, ...] = Field(
        default=(), description="Seconds of the update, for each batch size."
    )
    device: str = Field(default="", description="What it was measured on.")

    @model_validator(mode="after")
    def _same_shape(self) -> MeasuredTimes:
        rows, layers = len(self.batch_sizes), len(self.forward_s[0]) if self.forward_s else 0
        if any(
            one >= next_ for one, next_ in zip(self.batch_sizes, self.batch_sizes[1:], strict=False)
        ):
            raise ValueError(f"batch_sizes must rise, but got {list(self.batch_sizes)}")
        for name in ("forward_s", "backward_s", "gradient_ready_s"):
            table = getattr(self, name)
            # When gradients were there is known of traces alone: it may be left out, and is then
            # empty.
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
        """Seconds of each layer's forward pass over ``batch`` samples.

        `between` the measured sizes.
        """
        return between(np.array(self.batch_sizes, dtype=float), np.array(self.forward_s), batch)

    def backward(self, batch: int) -> NDArray[np.float64]:
        """Seconds of each layer's backward pass over ``batch`` samples."""
        return between(np.array(self.batch_sizes, dtype=float), np.array(self.backward_s), batch)

    def optimizer(self) -> float | None:
        """Seconds of the update, which does not depend on the batch.

        The median; None where it was not measured.
        """
        return float(np.median(self.optimizer_s)) if self.optimizer_s else None

    def scaled(self, factor: float) -> MeasuredTimes:
        """The same with all seconds multiplied by ``factor``."""
        update: dict[str, object] = {
            "optimizer_s": tuple(factor * seconds for seconds in self.optimizer_s)
        }
        for name in ("forward_s", "backward_s", "gradient_ready_s"):
            rows: tuple[tuple[float, ...], ...] = getattr(self, name)
            update[name] = tuple(tuple(factor * seconds for seconds in row) for row in rows)
        return self.model_copy(update=update)


def between(
    sizes: NDArray[np.float64], seconds: NDArray[np.float64], batch: int
) -> NDArray[np.float64]:
    """Interpolates the rows of ``seconds`` (batch sizes x layers) at ``batch``.

    On a straight line between two sizes. Above the largest size, time grows in proportion to the
    batch. Below the smallest it follows the line of the first two sizes, but neither above the
    smallest's time nor below its share of it; with a single size, in proportion.
    """
    if batch >= sizes[-1]:
        return np.asarray(seconds[-1] * (batch / sizes[-1]))
    if batch <= sizes[0]:
        share = seconds[0] * (batch / sizes[0])
        if len(sizes) == 1:
            return np.asarray(share)
        # A pass takes some time whatever the batch, which the line keeps. Two sizes that are near
        # may tilt it by noise: hence the limits.
        slope = (seconds[1] - seconds[0]) / (sizes[1] - sizes[0])
        return np.asarray(np.clip(seconds[0] - slope * (sizes[0] - batch), share, seconds[0]))

    right = int(np.searchsorted(sizes, batch))
    weight = (batch - sizes[right - 1]) / (sizes[right] - sizes[right - 1])
    return np.asarray((1 - weight) * seconds[right - 1] + weight * seconds[right])


class ProfileLayer(Config):
    """One layer, with the fields of `Layer`."""

    name: str
    kind: Kind = "elementwise"
    parameters: tuple[PositiveInt, ...] = ()
    borrowed: NonNegativeInt = 0
    forward_flop: NonNegativeInt = 0
    backward_flop: NonNegativeInt = 0
    forward_traffic: NonNegativeInt = 0
    backward_traffic: NonNegativeInt = 0
    activations: NonNegativeInt = 0
    steps: PositiveInt = 1
    shape: tuple[PositiveInt, PositiveInt, PositiveInt] | None = None
    head: NonNegativeInt = 0
    frozen: bool = False


class MeasuredCollective(Config):
    """A call of the communication library in the measured step."""

    operation: str = Field(description="As the library calls it, such as allreduce.")
    payload_bytes: NonNegativeInt = Field(description="Bytes of one rank's input.")
    ranks: PositiveInt | None = Field(
        default=None, description="Ranks of its group, where the trace says so."
    )
    start_s: float = Field(
        description="Start of its kernel after the start of the backward pass, in seconds."
    )
    duration_s: NonNegativeFloat = Field(
        description="Seconds of its kernel, waiting for other ranks included."
    )


class ModelProfile(Config):
    """A model as it was traced or measured."""

    schema_version: Literal[1] = 1
    kind: Literal["model-profile"] = "model-profile"
    name: Annotated[str, Field(min_length=1, max_length=200)]
    sample: str = Field(default="sample", description="What one sample is.")
    tokens: PositiveInt | None = Field(
        default=None, description="How many tokens a sample has, where it is text."
    )
    units: dict[str, str] = Field(default=UNITS, description="Of the numbers in this file.")
    layers: tuple[ProfileLayer, ...] = Field(min_length=1, description="In forward order.")
    measured: MeasuredTimes | None = Field(
        default=None, description="Times that count in place of computed ones."
    )
    collectives: tuple[MeasuredCollective, ...] = Field(
        default=(), description="Calls of one step, in order."
    )
    notes: tuple[str, ...] = Field(default=(), description="What is doubtful or missing.")
    provenance: dict[str, str] = Field(
        default={}, description="What wrote it, from what, with which versions."
    )

    @model_validator(mode="after")
    def _a_time_a_layer(self) -> ModelProfile:
        if self.measured and len(self.measured.forward_s[0]) != len(self.layers):
            raise ValueError(
                f"measured must have a time for each of {len(self.layers)} layers, but has "
                f"{len(self.measured.forward_s[0])}"
            )
        return self

    @classmethod
    def of(cls, model: Model, provenance: dict[str, str]) -> ModelProfile:
        """The profile of a model."""
        # Both have the same fields, so that neither side lists them again.
        fields = tuple(ProfileLayer.model_fields)
        layers = tuple(
            ProfileLayer(**{field: getattr(layer, field) for field in fields})
            for layer in model.layers
        )
        return cls(
            name=model.name,
            sample=model.sample,
            tokens=model.tokens,
            layers=layers,
            measured=model.measured,
            notes=model.notes,
            provenance=provenance,
        )

    def model(self) -> Model:
        """The model that it holds."""
        layers = tuple(Layer(**dict(layer)) for layer in self.layers)
        return Model(self.name, layers, self.sample, self.measured, self.notes, self.tokens)

    def to_json(self) -> str:
        """The profile as the text of its file."""
        return self.model_dump_json(indent=1) + "\n"


def load_model_profile(path: str | os.PathLike[str]) -> ModelProfile:
    """The profile in the JSON file at ``path``.

    Raises DpsimError where there is none, or it is not one.
    """
    text = read_file(path)
    try:
        return _kept(text) if len(text) <= _MOST_KEPT else ModelProfile.model_validate_json(text)
    except ValidationError as error:
        raise DpsimError(f"{path}: {first_problem(error)}") from None


# A run asks for its model's profile several times, and a study for each of its runs.
@lru_cache(maxsize=8)
def _kept(text: bytes) -> ModelProfile:
    return ModelProfile.model_validate_json(text)


def read_file(path: str | os.PathLike[str]) -> bytes:
    """The bytes at ``path``.

    Raises DpsimError where they cannot be read or are more than 64 MiB.
    """
    return read_limited(path, MOST_BYTES)
