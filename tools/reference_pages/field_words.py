"""A configuration field in words.

Its accepted values (type, unit, limits) and its default.
"""

from __future__ import annotations

import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, WithJsonSchema
from pydantic.fields import FieldInfo

from dpsim.base.config import Config
from dpsim.base.kinds import OnDemand
from dpsim.base.units import DATA, DIMENSIONS, Dimension, human
from dpsim.hardware import Sourced
from tools.reference_pages.markdown import code

_PLAIN = {bool: "true or false", int: "whole number", float: "number", str: "text"}
_LIMITS = ("gt", "ge", "lt", "le", "multiple_of", "min_length", "max_length")
_DIGITS = 12


def takes(field: FieldInfo) -> str:
    """Return the type of a field with its unit, an example and its limits."""
    return _words(field.annotation, field.metadata)


def _words(annotation: Any, metadata: Iterable[Any]) -> str:
    annotation, annotations = _unwrap(annotation, metadata)
    limits = _limits(annotations)
    stated = _description(annotations)
    if stated is not None:
        return stated
    if get_origin(annotation) in (Union, types.UnionType):
        options = [option for option in get_args(annotation) if option is not types.NoneType]
        return _union_words(options, annotations)
    if get_origin(annotation) is Literal:
        words = get_args(annotation)
        return f"one of {code(words)}" if len(words) > 1 else code(words)
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return _model_words(annotation)
    if annotation in _PLAIN:
        return ", ".join([_PLAIN[annotation], *_limit_words(limits, whole=annotation is int)])
    return _container_words(annotation, limits)


def _union_words(options: list[Any], metadata: list[Any]) -> str:
    """Describe a union; a value or a list of such values is described as one."""
    words = list(dict.fromkeys(_words(option, metadata) for option in options))
    lists = [f"list: {each}" for each in words]
    single = " or ".join(each for each in words if each not in lists)
    return f"{single}, or a list of them" if set(lists) & set(words) else single


def _container_words(annotation: Any, limits: dict[str, Any]) -> str:
    """Describe lists and free mappings by their items."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is dict:
        return f"mapping by name: {_words(arguments[1], ())}"
    if origin is tuple:
        count = _count(limits) if Ellipsis in arguments else str(len(arguments))
        items = _words(arguments[0], ())
        return f"list of {count}: {items}" if count else f"list: {items}"
    return "value of any kind"


def _count(limits: dict[str, Any]) -> str:
    """Return the number of entries of a list; empty if it is not limited."""
    least, most = limits.get("min_length"), limits.get("max_length")
    if least is not None and most is not None:
        return f"{least} to {most}"
    return f"at least {least}" if least is not None else ""


def _model_words(model: type[BaseModel]) -> str:
    if issubclass(model, Sourced):
        return f"{takes(model.model_fields['value'])}, or a mapping of `value` and `source`"
    return "mapping"


def _unwrap(annotation: Any, metadata: Iterable[Any]) -> tuple[Any, list[Any]]:
    """Return the type without ``Annotated``, and all of its metadata."""
    layers = list(metadata)
    while get_origin(annotation) is Annotated:
        annotation, *more = get_args(annotation)
        layers += more
    annotations: list[Any] = []
    for each in layers:
        annotations += each.metadata if isinstance(each, FieldInfo) else [each]
    return annotation, annotations


def _description(metadata: Iterable[Any]) -> str | None:
    """Return the description of a value from its annotations.

    It may be a quantity, a name from a registry, a file name or a mapping.
    """
    annotations = list(metadata)
    for each in annotations:
        if isinstance(each, OnDemand):
            return _model_words(each.model())
        if isinstance(each, BeforeValidator) and str in get_args(each.json_schema_input_type):
            return "file"
        if isinstance(each, WithJsonSchema) and (names := _names(each.json_schema or {})):
            return f"one of {code(names)}"
    dimension = _dimension(annotations)
    if dimension is None:
        return None
    name = dimension.name.removeprefix("an ").removeprefix("a ")
    above = " above 0" if "gt" in _limits(annotations) else ""
    return f"{name}{above}, such as `{dimension.example}`"


def _names(schema: Mapping[str, Any]) -> list[str]:
    """Return the allowed names, or examples of them; none for other text."""
    options = schema.get("anyOf", [schema])
    if "enum" not in options[0]:
        return []
    return [name for one in options for name in one.get("enum", one.get("examples", ()))]


def _dimension(metadata: Iterable[Any]) -> Dimension | None:
    """Return the dimension of a quantity; None for other fields."""
    for each in metadata:
        if isinstance(each, WithJsonSchema) and each.json_schema and "anyOf" in each.json_schema:
            description = each.json_schema["anyOf"][0].get("description", "")
            return next((one for one in DIMENSIONS if description.startswith(one.name)), None)
    return None


def _limits(metadata: Iterable[Any]) -> dict[str, Any]:
    limits = {}
    for each in metadata:
        for name in _LIMITS:
            # Each limit is a separate object with this single attribute.
            limit = getattr(each, name, None)
            if limit is not None:
                limits[name] = limit
    return limits


def _limit_words(limits: dict[str, Any], *, whole: bool) -> Iterator[str]:
    # For integers "above 0" is "at least 1".
    least = limits.get("ge")
    if least is None and whole and "gt" in limits:
        least = limits["gt"] + 1
    most = limits.get("le")
    if least is not None and most is not None:
        yield f"{_number(least)} to {_number(most)}"
    elif least is not None:
        yield f"at least {_number(least)}"
    if "gt" in limits and not whole:
        yield f"above {_number(limits['gt'])}"
    if "lt" in limits:
        yield f"below {_number(limits['lt'])}"
    if most is not None and least is None:
        yield f"at most {_number(most)}"
    if "multiple_of" in limits:
        yield f"a multiple of {limits['multiple_of']}"


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else f"{value:,g}"


def default(field: FieldInfo) -> str:
    """Return the default of a field, in words."""
    if field.is_required():
        return "required"
    # A factory's result depends on other fields, so their description covers it.
    if field.default_factory is not None:
        return "as said beside"
    value = field.get_default(call_default_factory=True)
    dimension = next(
        filter(None, map(_dimension, _all_metadata(field.annotation, field.metadata))), None
    )
    if dimension is not None and isinstance(value, float):
        return f"`{quantity(value, dimension)}`"
    return _value(value)


def _all_metadata(annotation: Any, metadata: Iterable[Any]) -> Iterator[list[Any]]:
    """Yield the metadata of a field, and of each of its possible types."""
    annotation, found = _unwrap(annotation, metadata)
    yield found
    if get_origin(annotation) in (Union, types.UnionType):
        for option in get_args(annotation):
            yield from _all_metadata(option, ())


def _value(value: object) -> str:
    match value:
        case None | () | "":
            return "none"
        case Sourced():
            return _value(value.value)
        case Config():
            return _config_text(value)
        case dict():
            return "those that it writes" if value else "none"
    return f"`{_plain(value)}`"


def _config_text(value: Config) -> str:
    """Return a model as in a file, with the values that were set."""
    fields = [f"{name}: {_plain(getattr(value, name))}" for name in sorted(value.model_fields_set)]
    return f"`{{{', '.join(fields)}}}`" if fields else "that of each field"


def _plain(value: object) -> str:
    """Return a plain value, or a list of them, as in a file."""
    match value:
        case bool():
            return str(value).lower()
        case float():
            return f"{value:g}"
        case tuple():
            return f"[{', '.join(map(_plain, value))}]"
    return str(value)


def quantity(value: float, dimension: Dimension) -> str:
    """Return ``value`` with a unit and all its digits; in binary units where it divides evenly."""
    for factor, unit in ((2.0**30, "GiB"), (2.0**20, "MiB"), (2.0**10, "KiB")):
        if dimension is DATA and value and value % factor == 0:
            return f"{value / factor:g} {unit}"
    return human(value, dimension, _DIGITS)
