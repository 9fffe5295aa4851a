"""The types allowed at a path of a scenario, from the annotations of the pydantic models."""

from __future__ import annotations

import types
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, Discriminator
from pydantic.fields import FieldInfo

from dpsim.base.kinds import Kinds, OnDemand
from dpsim.scenario.document import Node, Path


@dataclass(frozen=True, slots=True)
class Shape:
    """The types that one value may have: ``types_listed``, or models by their ``kinds_on_demand``.

    With a discriminator they are the models that its key (``kind``) selects from.
    """

    types_listed: tuple[Any, ...] = ()
    discriminator: str | None = None
    kinds_on_demand: Kinds | None = None

    @property
    def options(self) -> tuple[Any, ...]:
        """The allowed types."""
        kinds = self.kinds_on_demand
        return self.types_listed if kinds is None else tuple(kinds.models().values())

    def alternatives(self) -> Iterator[Shape]:
        """Return each option as a separate shape.

        A discriminated union may be one option of a plain union.
        """
        return (shape_of(option) for option in self.options)

    def models(self) -> list[type[BaseModel]]:
        """Return the models among the options, in the order in which they are written."""
        # Recurse only into several options; the only alternative of one option is the same shape.
        if self.discriminator is None and len(self.options) != 1:
            return [model for shape in self.alternatives() for model in shape.models()]
        return [
            option
            for option in self.options
            if isinstance(option, type) and issubclass(option, BaseModel)
        ]

    def kinds(self) -> dict[str, type[BaseModel]]:
        """Return the models by their values of the discriminator; empty without one."""
        key = self.discriminator
        if self.kinds_on_demand is not None:
            return self.kinds_on_demand.models()
        if key is None:
            return {}
        return {
            name: model
            for model in self.models()
            for name in _field_shape(fields_of(model)[key]).names()
        }

    def kind(self, name: str) -> type[BaseModel] | None:
        """Return the model of one kind; None if there is none."""
        if self.kinds_on_demand is not None:
            return self.kinds_on_demand.model(name)
        return self.kinds().get(name)

    def names(self) -> list[str]:
        """Return the values of all literals and enumerations among the options, as text."""
        if len(self.options) != 1:
            return [name for shape in self.alternatives() for name in shape.names()]
        option = self.options[0]
        if get_origin(option) is Literal:
            return [str(value) for value in get_args(option)]
        if isinstance(option, type) and issubclass(option, Enum):
            return [str(member.value) for member in option]
        return []

    def fields(self) -> dict[str, FieldInfo]:
        """Return the fields by their keys in the file, over all models among the options."""
        return {key: field for model in self.models() for key, field in fields_of(model).items()}

    def select(self, node: Node | None) -> Shape:
        """Return the shape narrowed to the kind that the mapping ``node`` selects."""
        union = self.union()
        mapping = node.value if node is not None else None
        if union is None or union.discriminator is None or not isinstance(mapping, dict):
            return self
        kind = mapping.get(union.discriminator)
        chosen = union.kind(str(kind.value)) if kind else None
        return Shape((chosen,)) if chosen else self

    def union(self) -> Shape | None:
        """Return the discriminated union here, also if it is one option among others."""
        if self.discriminator is not None or len(self.types_listed) < 2:
            return self if self.discriminator is not None else None
        return next(
            (shape for shape in self.alternatives() if shape.discriminator is not None), None
        )

    def below(self, part: str | int) -> Shape:
        """Return the shape under a key or a list index; an empty shape if it is unknown."""
        if isinstance(part, str):
            # If several models have the key, use the last one, as in `fields`.
            for model in reversed(self.models()):
                if part in (shapes := _field_shapes(model)):
                    return shapes[part]
        each = [self] if len(self.options) == 1 else self.alternatives()
        items = (_item_shape(option, part) for shape in each for option in shape.options)
        return next(filter(None, items), Shape())

    @property
    def any_key(self) -> bool:
        """Whether keys that no model names are allowed here.

        True for free mappings, and if the type is unknown.
        """
        return not self.models() or any(_item_shape(option, "") for option in self.options)


def shape_of(annotation: Any, discriminator: str | None = None) -> Shape:
    """Return the shape that an annotation allows; ``None`` among its options is left out."""
    # If an alias is annotated again, Annotated is nested and the outer one takes precedence.
    while get_origin(annotation) is Annotated:
        annotation, *metadata = get_args(annotation)
        discriminator = discriminator or next(filter(None, map(_discriminator, metadata)), None)
        if (on_demand := _on_demand(metadata)) is not None:
            return on_demand
    if get_origin(annotation) not in (Union, types.UnionType):
        return Shape(() if annotation is Any else (annotation,))
    options = tuple(option for option in get_args(annotation) if option is not types.NoneType)
    if len(options) == 1:
        return shape_of(options[0], discriminator)
    return Shape(options, discriminator)


def shape_at(root: Node, model: type[BaseModel], path: Path) -> Shape:
    """Return the shape at a path of the values of a ``model``, following the kinds they select."""
    node, shape = root, shape_of(model)
    for part in path:
        shape = shape.select(node).below(part)
        node = node.nearest((part,))
    return shape


@cache
def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return a model's fields by their keys in the file."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


@cache
def _field_shapes(model: type[BaseModel]) -> dict[str, Shape]:
    """Return the shape of each field by its key in the file, cached for all scenarios."""
    return {key: _field_shape(field) for key, field in fields_of(model).items()}


def _field_shape(field: FieldInfo) -> Shape:
    # pydantic has moved the annotation's metadata into the field.
    return _on_demand(field.metadata) or shape_of(field.annotation, _discriminator(field))


def _on_demand(metadata: Sequence[object]) -> Shape | None:
    """Return the shape of models that are imported on demand; None if there are none."""
    for each in metadata:
        if isinstance(each, Kinds):
            return Shape((), each.key, each)
        if isinstance(each, OnDemand):
            return Shape((each.model(),))
    return None


def _discriminator(metadata: object) -> str | None:
    key = metadata.discriminator if isinstance(metadata, (FieldInfo, Discriminator)) else None
    key = key.discriminator if isinstance(key, Discriminator) else key
    return key if isinstance(key, str) else None


def _item_shape(option: Any, part: str | int) -> Shape | None:
    """Return the shape of the items of a list or a free mapping."""
    origin, arguments = get_origin(option), get_args(option)
    if not (isinstance(origin, type) and issubclass(origin, Collection) and arguments):
        return None
    is_mapping = issubclass(origin, Mapping)
    if isinstance(part, str):
        return shape_of(arguments[1]) if is_mapping else None
    if is_mapping:
        return None
    # tuple[int, str] has a type for each index, tuple[int, ...] one for all indices.
    fixed = issubclass(origin, tuple) and Ellipsis not in arguments
    return shape_of(arguments[part] if fixed and part < len(arguments) else arguments[0])
