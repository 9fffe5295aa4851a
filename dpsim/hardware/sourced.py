"""A value with its source: ``{value: 16 GB, source: "NVIDIA Tesla V100 datasheet"}``."""

from __future__ import annotations

from typing import Annotated, Any, Generic, TypeVar

from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from dpsim.base.config import Config
from dpsim.base.units import BytesPerSecond, FlopPerSecond, PositiveBytes, Seconds, Watts

T = TypeVar("T")

USER_GIVEN = "given in the scenario"


class Sourced(Config, Generic[T]):
    """A value and its source.

    In a file it is ``{value, source}``, or a value alone, whose source is `USER_GIVEN`.
    """

    value: T
    source: str = Field(
        default=USER_GIVEN,
        min_length=1,
        description="Source of the value, or the reasoning if it is assumed.",
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_value(cls, data: object) -> object:
        return data if isinstance(data, (dict, Sourced)) else {"value": data}

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        full = handler(core_schema)
        # Only an input may leave out the source.
        if handler.mode == "serialization":
            return full
        properties: dict[str, Any] = handler.resolve_ref_schema(full)["properties"]
        bare = {key: value for key, value in properties["value"].items() if key != "title"}
        return {"anyOf": [bare, full]}


class SourcedBytes(Sourced[PositiveBytes]):
    """An amount of data, in bytes, with its source."""


class SourcedRate(Sourced[BytesPerSecond]):
    """A data rate, in B/s, with its source."""


class SourcedSpeed(Sourced[FlopPerSecond]):
    """A compute rate, in FLOP/s (or integer operations a second), with its source."""


class SourcedTime(Sourced[Seconds]):
    """A time, in seconds, with its source."""


class SourcedWatts(Sourced[Watts]):
    """A power, in watts, with its source."""


class SourcedCapability(Sourced[Annotated[float, Field(ge=1, le=99)]]):
    """A compute capability (7.0), with its source."""


class SourcedFraction(Sourced[Annotated[float, Field(ge=1e-6, le=1)]]):
    """A fraction, with its source; at least 1e-6, so that results do not overflow."""
