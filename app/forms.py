"""The editable fields of a scenario, from its JSON Schema.

New kinds and fields appear on the page without extra code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.base.units import DIMENSIONS, human, parse
from dpsim.hardware import gpus, links, nodes
from dpsim.scenario import Scenario
from dpsim.workload.models import MODELS

Schema = Mapping[str, Any]

# Fields that take a catalogue's name, by the model whose description they accept instead; and
# the model of a workload by its key.
_CATALOGUES: dict[str, Callable[[], Mapping[str, Any]]] = {
    "Node": nodes,
    "Gpu": gpus,
    "Link": links,
    "TorchSource": lambda: MODELS,
}


@dataclass(frozen=True, slots=True)
class Field:
    """One editable value: its path, its type and limits, and its default as text.

    The default is None if the value may be left out.
    """

    path: str
    name: str
    help: str
    type: str  # choice, boolean, integer, number or text
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    default: Any = None
    optional: bool = False
    catalogue: Mapping[str, Any] | None = None  # of the choices, which knows aliases


@dataclass(frozen=True, slots=True)
class Union:
    """A part of one of several kinds: the key that selects, and the schema of each."""

    path: str
    name: str
    help: str
    key: str
    kinds: Mapping[str, Schema]
    default: str | None


@cache
def whole() -> Schema:
    """Return the JSON Schema of scenarios."""
    return Scenario.model_json_schema()


def part(path: str) -> Schema:
    """Return the schema of a mapping, or of a list's entries, at ``path``, such as ``cluster``."""
    schema = whole()
    for word in path.split("."):
        schema = _plain(schema["properties"][word])
        schema = _plain(schema.get("items", schema))
    return schema


def union(path: str) -> Union:
    """Return the part of several kinds at ``path``, such as ``strategy.sync``."""
    above, _, name = path.rpartition(".")
    given = part(above)["properties"][name]
    options = next(each for each in (given, *given.get("anyOf", ())) if "discriminator" in each)
    key = options["discriminator"]["propertyName"]
    # oneOf keeps the union's order, with the usual kind first.
    kinds = {each["properties"][key]["const"]: each for each in map(_plain, options["oneOf"])}
    default = (given.get("default") or {}).get(key)
    return Union(path, name, given.get("description", ""), key, kinds, default)


def fields(schema: Schema, path: str) -> Iterator[Field]:
    """Yield the single values among the properties of a mapping at ``path``.

    Leaves out lists of mappings and nested parts.
    """
    for name, given in schema["properties"].items():
        if found := _field(f"{path}.{name}", name, given):
            yield found


def shown(value: object) -> str:
    """Return a scenario's value for display.

    Quantities are in a suitable unit; a missing value is empty.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    # A decimal point suggests a value that dpsim wrote in full, such as 3125000000.0 B/s;
    # values that users write without one are unchanged.
    if isinstance(value, str) and "." in value.partition(" ")[0]:
        for dimension in DIMENSIONS:
            with suppress(DpsimError):
                return human(parse(value, dimension), dimension, 6)
    return f"{value:g}" if isinstance(value, float) else str(value)


def around(value: object) -> Sequence[object]:
    """Return half of a number or quantity, itself, and twice it; only itself for other values."""
    if isinstance(value, int):
        return [value // 2, value, 2 * value][value < 2 :] if value else [value]
    if isinstance(value, float):
        return [value / 2, value, 2 * value]
    for dimension in DIMENSIONS:
        with suppress(DpsimError):
            number = parse(str(value), dimension)
            return [human(number * factor, dimension, 6) for factor in (0.5, 1, 2)]
    return [value]


def _field(path: str, name: str, given: Schema) -> Field | None:
    # pydantic writes optional types and unions as anyOf; other types have a plain schema.
    options = [_plain(option) for option in given.get("anyOf", (given,))]
    kept = [option for option in options if option.get("type") != "null"]

    about: dict[str, Any] = {
        "help": given.get("description", ""),
        "default": given.get("default"),
        "optional": len(kept) < len(options),
    }
    for option in kept:
        if known := _CATALOGUES.get(str(option.get("title"))):
            names = known()
            about |= {"choices": tuple(names), "catalogue": names}
            return Field(path, name, type="choice", **about)

    first = kept[0]
    # A nested part has separate widgets (`union`).
    if "discriminator" in given or any(
        "discriminator" in option or "properties" in option for option in kept
    ):
        return None
    if "enum" in first:
        return Field(path, name, type="choice", choices=tuple(map(str, first["enum"])), **about)
    # A single value leaves no choice.
    if "const" in first:
        return None
    return _scalar(path, name, first, about)


def _scalar(path: str, name: str, first: Schema, about: dict[str, Any]) -> Field | None:
    kind = first.get("type")
    if kind == "boolean":
        return Field(path, name, type="boolean", **about)
    if kind in ("integer", "number"):
        step = 1 if kind == "integer" else 0.0
        # A widget has no exclusive limits: the scenario's validation refuses the limit itself.
        least = first.get(
            "minimum", first["exclusiveMinimum"] + step if "exclusiveMinimum" in first else None
        )
        return Field(
            path,
            name,
            type=kind,
            least=least,
            most=first.get("maximum", first.get("exclusiveMaximum")),
            **about,
        )
    # A list of plain values is entered as text. One of mappings has widgets elsewhere, or none.
    if kind == "array" and _plain(first.get("items", {})).get("type") not in (
        "integer",
        "number",
        "string",
    ):
        return None
    return Field(
        path, name, type="text", **{**about, "default": _with_unit(about["default"], first)}
    )


def _with_unit(default: object, schema: Schema) -> object:
    """Return a quantity's default as text with its unit; the schema has it in SI units."""
    dimension = next(
        (each for each in DIMENSIONS if schema.get("description") == f"{each.name} with its unit"),
        None,
    )
    return (
        human(default, dimension, 6)
        if dimension is not None and isinstance(default, (int, float))
        else default
    )


def _plain(schema: Schema) -> Schema:
    """Return the schema that ``$ref`` points to, or the schema itself."""
    _, _, name = schema.get("$ref", "").rpartition("/")
    found: Schema = whole()["$defs"][name] if name else schema
    return found
