"""What a GPU can do: peak compute rates per precision, memory and its bandwidth, power."""

from __future__ import annotations

from functools import cache
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field

from dpsim.base.config import Config
from dpsim.hardware.catalogue import Catalogue
from dpsim.hardware.sourced import SourcedBytes, SourcedRate, SourcedSpeed, SourcedWatts

Precision = Literal["fp32", "tf32", "fp16", "bf16", "fp8", "int8"]
Architecture = Literal[
    "kepler", "maxwell", "pascal", "volta", "turing", "ampere", "ada", "hopper", "blackwell", "other"
]  # fmt: skip


class Gpu(Config):
    """One device as a framework sees it: of a board with two dies, one die."""

    name: str = Field(default="inline", description="Its name in the catalogue.")
    aliases: tuple[str, ...] = Field(default=(), description="Other names that find it.")
    description: str = Field(default="", description="What it is, and what to beware of.")
    architecture: Architecture = Field(default="other", description="Its generation.")
    peak: dict[Precision, SourcedSpeed] = Field(
        min_length=1,
        description=(
            "Dense peak FLOP/s of each precision that it computes in, with tensor cores where "
            "frameworks use them."
        ),
    )
    memory: SourcedBytes = Field(description="Device memory, in bytes.")
    memory_bandwidth: SourcedRate = Field(
        description="Nominal bandwidth of the device memory, in B/s."
    )
    power: SourcedWatts | None = Field(default=None, description="Thermal design power, in watts.")

    def __repr__(self) -> str:
        return f"<Gpu {self.name}>"

    __str__ = __repr__


@cache
def gpus() -> Catalogue[Gpu]:
    """The GPUs of the catalogue, by name or alias."""
    return Catalogue("GPU", "gpus", Gpu)


def _resolve(value: object) -> object:
    return gpus()[value] if isinstance(value, str) else value


# A field that takes a catalogue name or a GPU's own description, and holds the Gpu.
GpuRef = Annotated[Gpu, BeforeValidator(_resolve, json_schema_input_type=str | Gpu)]
