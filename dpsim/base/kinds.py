"""Unions of configuration models, each imported when a file names its kind.

A scenario names one codec of ten and one fabric of nine. A package with such a family writes
the union for type checkers, and for pydantic a `Kinds` with the name of each model. The
package imports them on demand (`dpsim.base.lazy`)::

    if TYPE_CHECKING:
        CompressionConfig = NoCompressionConfig | CastConfig
    else:
        _KINDS = {"none": "NoCompressionConfig", "cast": "CastConfig"}
        CompressionConfig = Annotated[object, Kinds("kind", __name__, _KINDS)]

Pydantic then validates, locates errors and writes JSON Schema as for the discriminated union.
A part that most files leave out is `OnDemand` in the same way.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, reduce
from operator import or_
from pkgutil import resolve_name
from typing import Annotated, Any, get_args

from pydantic import BaseModel, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema


class Kinds:
    """Models by the value of their field ``key``, with each one's name in ``package``."""

    def __init__(self, key: str, package: str, models: Mapping[str, str]) -> None:
        self.key = key
        self._homes = {kind: f"{package}:{name}" for kind, name in models.items()}

    def names(self) -> tuple[str, ...]:
        """Return every kind, in the order of definition."""
        return tuple(self._homes)

    def model(self, kind: object) -> type[BaseModel] | None:
        """Return the model of one kind, imported now; None for an unknown kind."""
        home = self._homes.get(kind) if isinstance(kind, str) else None
        return None if home is None else resolve_name(home)

    def models(self) -> dict[str, type[BaseModel]]:
        """Return all models by kind, imported now."""
        return {kind: resolve_name(home) for kind, home in self._homes.items()}

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema by which pydantic validates."""
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the JSON Schema of the whole union."""
        return handler(_whole(self).core_schema)

    def _validate(self, value: Any, info: core_schema.ValidationInfo) -> Any:
        """Return the model that ``value`` is or describes.

        A value without a known kind goes to the whole union, whose error lists all kinds.
        """
        # Already a model, in a scenario that was built or changed in Python.
        if isinstance(value, BaseModel):
            kind = getattr(value, self.key, None)
        else:
            kind = value.get(self.key) if isinstance(value, Mapping) else None
        model = self.model(kind)
        adapter = _whole(self) if model is None else _alone(self.key, str(kind), model)
        return adapter.validate_python(value, context=info.context)


class OnDemand:
    """A model by its ``home``, such as ``package:Name``, imported when a file gives its field."""

    def __init__(self, home: str) -> None:
        self._home = home

    def model(self) -> type[BaseModel]:
        """Return the model, imported now."""
        model: type[BaseModel] = resolve_name(self._home)
        return model

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        """Return the schema by which pydantic validates."""
        # The name makes pydantic give the field no title, as for the model itself.
        return core_schema.with_info_wrap_validator_function(
            lambda value, _, info: self.model().model_validate(value, context=info.context),
            core_schema.any_schema(ref=self._home),
        )

    def __get_pydantic_json_schema__(
        self, schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        """Return the model's JSON Schema."""
        # As the only link of a chain, because the schema is written out where it is the outermost.
        return handler(core_schema.chain_schema([TypeAdapter(self.model()).core_schema]))


class _Tagged:
    """A discriminated union of one kind, so that errors include the kind as in any union."""

    def __init__(self, key: str, kind: str, model: type[BaseModel]) -> None:
        self._key, self._kind, self._model = key, kind, model

    def __get_pydantic_core_schema__(
        self, source: object, handler: GetCoreSchemaHandler
    ) -> CoreSchema:
        choices = {self._kind: handler.generate_schema(self._model)}
        return core_schema.tagged_union_schema(choices, self._key)


@cache
def _alone(key: str, kind: str, model: type[BaseModel]) -> TypeAdapter[Any]:
    # Cached, because making a validator takes far longer than using it.
    return TypeAdapter(Annotated[object, _Tagged(key, kind, model)])


@cache
def _whole(kinds: Kinds) -> TypeAdapter[Any]:
    # Imports all models, which only errors and schemas need.
    union: Any = reduce(or_, kinds.models().values())
    return TypeAdapter(Annotated[union, Field(discriminator=kinds.key)])


def kinds_of(union: Any) -> tuple[str, ...]:
    """Return the kinds of a union whose models are imported on demand, in order."""
    return next(each for each in get_args(union) if isinstance(each, Kinds)).names()
