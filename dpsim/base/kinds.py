"""Discriminated unions of pydantic models that import a model only when a file names its kind.

A scenario uses one of ten codecs and one of nine fabrics, so importing all would waste start-up
time. Each kind has its own module: ``local-sgd`` is the model in ``local_sgd.py`` with
``kind: Literal["local-sgd"]``. Type checkers see the base class, pydantic a `Kinds`::

    if TYPE_CHECKING:
        CompressionConfig = Codec
    else:
        CompressionConfig = Annotated[object, Kinds("kind", __name__, ("none", "cast"))]

Pydantic validates, locates errors and writes JSON Schema as for the whole union. `OnDemand` does
the same for a single model that most files leave out.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache, cached_property, reduce
from importlib import import_module
from operator import or_
from pathlib import Path
from pkgutil import iter_modules, resolve_name
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, get_args

from pydantic import BaseModel, Field, GetCoreSchemaHandler, GetJsonSchemaHandler, TypeAdapter
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, core_schema

from dpsim.base.config import Config


class KindConfig(Config):
    """The base of models that are selected by their ``kind``."""

    label: ClassVar[str] = ""
    """Label of the kind in the dashboard, such as "local SGD"; "" if it is its name."""

    if TYPE_CHECKING:
        # Each kind declares ``kind`` as a Literal, which also fixes its place among the fields.
        kind: str


class Kinds:
    """The models of ``package``, selected by their field ``key``; a kind's module has its name.

    ``order`` has the kinds in the order in which they are listed; others follow by their names.
    ``elsewhere`` has the modules of kinds whose module has another name.
    """

    def __init__(
        self,
        key: str,
        package: str,
        order: tuple[str, ...] = (),
        elsewhere: Mapping[str, str] | None = None,
    ) -> None:
        self.key = key
        self._package, self._order, self._elsewhere = package, order, dict(elsewhere or {})

    def names(self) -> tuple[str, ...]:
        """Return every kind, in the order in which they are listed."""
        return self._names

    def model(self, kind: object) -> type[BaseModel] | None:
        """Return the model of one kind, imported now; None for an unknown kind."""
        if not isinstance(kind, str) or kind not in self._modules:
            return None
        module = import_module(f"{self._package}.{self._modules[kind]}")
        here = (each for each in vars(module).values() if isinstance(each, type))
        return next((each for each in here if self._is_model_of(kind, each)), None)

    def models(self) -> dict[str, type[BaseModel]]:
        """Return all models by kind, imported now."""
        models = {kind: self.model(kind) for kind in self.names()}
        return {kind: model for kind, model in models.items() if model is not None}

    @cached_property
    def _modules(self) -> dict[str, str]:
        """Every possible kind, and its module."""
        modules = [module.name for module in iter_modules(self._folders)]
        return {**{name.replace("_", "-"): name for name in modules}, **self._elsewhere}

    @cached_property
    def _names(self) -> tuple[str, ...]:
        others = sorted(set(self._modules) - set(self._order))
        return (*self._order, *filter(self._declares, others))

    def _declares(self, kind: str) -> bool:
        """Return whether the module's source declares the kind; reading it avoids an import."""
        files = [Path(folder, f"{self._modules[kind]}.py") for folder in self._folders]
        return any(
            f'{self.key}: Literal["{kind}"]' in file.read_text(encoding="utf-8")
            for file in files
            if file.is_file()
        )

    @property
    def _folders(self) -> list[str]:
        return list(import_module(self._package).__path__)

    def _is_model_of(self, kind: str, model: type) -> bool:
        field = model.model_fields.get(self.key) if issubclass(model, BaseModel) else None
        return field is not None and get_args(field.annotation) == (kind,)

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
        # In a scenario that was built or changed in Python, the value already is a model.
        if isinstance(value, BaseModel):
            kind = getattr(value, self.key, None)
        else:
            kind = value.get(self.key) if isinstance(value, Mapping) else None
        model = self.model(kind)
        adapter = _whole(self) if model is None else _of_one_kind(self.key, str(kind), model)
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
        # Wrap it, because pydantic would inline an outermost schema instead of writing a $ref.
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
def _of_one_kind(key: str, kind: str, model: type[BaseModel]) -> TypeAdapter[Any]:
    # The cache is worthwhile, because making a validator takes far longer than using it.
    return TypeAdapter(Annotated[object, _Tagged(key, kind, model)])


@cache
def _whole(kinds: Kinds) -> TypeAdapter[Any]:
    # This imports all models, which only errors and schemas need.
    union: Any = reduce(or_, kinds.models().values())
    return TypeAdapter(Annotated[union, Field(discriminator=kinds.key)])


def kinds_of(union: Any) -> tuple[str, ...]:
    """Return the kinds of a union whose models are imported on demand, in order."""
    return next(each for each in get_args(union) if isinstance(each, Kinds)).names()
