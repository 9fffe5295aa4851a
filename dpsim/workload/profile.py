"""Model profiles: JSON files of layers and of any measured times, which imports write."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Annotated, Literal

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
from dpsim.workload.measured_times import MeasuredTimes

MOST_BYTES = 64 * 2**20
_MOST_CACHED = 2**18  # size limit of cached profiles, in bytes
_PRODUCTS = ("attention", "conv", "linear")
_SHOWN_NAMES = 3

UNITS = {
    "parameters, borrowed": "elements",
    "forward_flop, backward_flop": "FLOP per sample",
    "forward_traffic, backward_traffic, activations": "elements per sample",
    "names that end in _s": "seconds for the whole batch",
    "names that end in _bytes": "bytes",
}


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
    over_batch: bool = False


class MeasuredCollective(Config):
    """A call of the communication library in the measured step."""

    operation: str = Field(description="The library's name of the operation, such as allreduce.")
    payload_bytes: NonNegativeInt = Field(description="Bytes of one rank's input.")
    ranks: PositiveInt | None = Field(
        default=None, description="Ranks of its group, if the trace has them."
    )
    start_s: float = Field(
        description="Start of its kernel after the start of the backward pass, in seconds."
    )
    duration_s: NonNegativeFloat = Field(
        description="Seconds of its kernel, waiting for other ranks included."
    )


class LongLayer(Config):
    """A layer, or an operator, of a traced step."""

    name: str
    forward_s: NonNegativeFloat
    backward_s: NonNegativeFloat
    share: NonNegativeFloat = Field(description="Seconds of both per step.")


class TracedStep(Config):
    """The seconds of a traced step by its parts: means over steps."""

    step_s: NonNegativeFloat = Field(description="The whole step.")
    longest: tuple[LongLayer, ...] = Field(description="The layers that take longest, up to ten.")
    other_layers_s: NonNegativeFloat = Field(description="All other layers.")
    optimizer_s: NonNegativeFloat = Field(description="The update of the weights.")
    no_layer_s: NonNegativeFloat = Field(description="Kernels that belong to no layer.")
    exposed_s: NonNegativeFloat = Field(description="Collectives without concurrent computing.")
    idle_s: NonNegativeFloat = Field(description="No kernel runs.")


class ModelProfile(Config):
    """A traced or measured model."""

    schema_version: Literal[1] = 1
    kind: Literal["model-profile"] = "model-profile"
    name: Annotated[str, Field(min_length=1, max_length=200)]
    sample: str = Field(default="sample", description="Unit of a sample, such as image.")
    tokens: PositiveInt | None = Field(default=None, description="Tokens per sample, for text.")
    units: dict[str, str] = Field(default=UNITS, description="Units of the numbers in this file.")
    layers: tuple[ProfileLayer, ...] = Field(min_length=1, description="Layers in forward order.")
    measured: MeasuredTimes | None = Field(
        default=None, description="Measured times, used instead of computed ones."
    )
    traced: TracedStep | None = Field(
        default=None, description="Breakdown of the traced steps' time."
    )
    collectives: tuple[MeasuredCollective, ...] = Field(
        default=(), description="Collective calls of one step, in order."
    )
    notes: tuple[str, ...] = Field(default=(), description="Doubtful or missing data.")
    provenance: dict[str, str] = Field(
        default={}, description="Tool, inputs and versions that produced the file."
    )

    @model_validator(mode="after")
    def _check_layers(self) -> ModelProfile:
        if self.measured and len(self.measured.forward_s[0]) != len(self.layers):
            raise ValueError(
                f"measured must have a time for each of {len(self.layers)} layers, but has "
                f"{len(self.measured.forward_s[0])}"
            )
        return self

    @classmethod
    def of(cls, model: Model, provenance: dict[str, str]) -> ModelProfile:
        """Return the profile of a model."""
        # Layer has the same fields.
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
        """Return the model in the profile.

        Trained layers without a backward pass get one of twice their forward pass, with a note.
        """
        layers = tuple(Layer(**dict(layer)) for layer in self.layers)
        model = Model(self.name, layers, self.sample, self.measured, self.notes, self.tokens)
        return model if self.measured else _completed(model)

    @property
    def without_work(self) -> ProfileLayer | None:
        """The first layer of matrix products that has weights, but no FLOP or measured times."""
        idle = (
            layer
            for layer in self.layers
            if layer.kind in _PRODUCTS
            and layer.parameters
            and not layer.forward_flop + layer.backward_flop
        )
        return None if self.measured else next(idle, None)

    @property
    def rows(self) -> list[dict[str, object]]:
        """The layers as rows of a table, with measured seconds at each batch size."""
        rows = [layer.model_dump(mode="json") for layer in self.layers]
        for row in rows:
            row["layer_kind"] = row.pop("kind")  # tables leave out "kind", the kind of an answer
        if self.measured is not None:
            for index, batch in enumerate(self.measured.batch_sizes):
                for pass_ in ("forward", "backward"):
                    seconds = getattr(self.measured, f"{pass_}_s")[index]
                    for row, each in zip(rows, seconds, strict=True):
                        row[f"{pass_}_s at batch {batch}"] = each
        return rows

    def to_json(self) -> str:
        """Return the profile as the text of its file."""
        return self.model_dump_json(indent=1) + "\n"


def _completed(model: Model) -> Model:
    """Return the model with the backward passes that layers must have, but do not state."""
    # From the first trained layer on, every product has a backward pass. Other layers have one too
    # if the profile states none at all.
    stated = any(layer.backward_flop or layer.backward_traffic for layer in model.layers)
    layers, assumed = list(model.layers), []
    for index, layer in enumerate(model.layers):
        if index < model.first_trained or layer.frozen or layer.backward_flop:
            continue
        if layer.forward_flop or (layer.forward_traffic and not stated):
            flop, traffic = 2 * layer.forward_flop, 2 * layer.forward_traffic
            layers[index] = replace(
                layer,
                backward_flop=flop,
                backward_traffic=layer.backward_traffic or traffic,
            )
            assumed.append(layer.name)
    notes = []
    if assumed:
        notes.append(
            f"assumed: backward passes take twice the FLOP and traffic of forward passes in "
            f"{shortened(assumed)}, whose backward_flop is 0"
        )
    if not any(layer.forward_traffic for layer in model.layers):
        notes.append(
            "assumed: activations are read and written at no cost, since no layer has "
            "forward_traffic: the predicted step is too short by that"
        )
    return replace(model, layers=tuple(layers), notes=(*model.notes, *notes))


def shortened(names: Sequence[str]) -> str:
    """Return the names of layers; of many, the first ones and the number of others."""
    more = len(names) - _SHOWN_NAMES
    return ", ".join(names[:_SHOWN_NAMES]) + (f" and {more} more" if more > 0 else "")


def load_model_profile(path: str | os.PathLike[str]) -> ModelProfile:
    """Load the profile from the JSON file at ``path``.

    Raises DpsimError if the file is missing or no profile, or has layers without work.
    """
    text = read_file(path)
    try:
        found = (
            _parsed(text) if len(text) <= _MOST_CACHED else ModelProfile.model_validate_json(text)
        )
    except ValidationError as error:
        raise DpsimError(f"{path}: {first_problem(error)}") from None
    idle = found.without_work
    if idle is not None:
        raise DpsimError(
            f"{path}: layer {idle.name} ({idle.kind}) has weights, and must have forward_flop, its "
            "FLOP per sample (2 for a multiply and an add), or the profile measured times"
        )
    return found


# A run loads its profile several times, and a study once for each run.
@lru_cache(maxsize=8)
def _parsed(text: bytes) -> ModelProfile:
    return ModelProfile.model_validate_json(text)


def read_file(path: str | os.PathLike[str]) -> bytes:
    """Return the bytes of the file at ``path``.

    Raises DpsimError if it cannot be read or is larger than 64 MiB.
    """
    return read_limited(path, MOST_BYTES)
