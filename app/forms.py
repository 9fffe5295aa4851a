"""What may be set in a scenario, read off its JSON Schema.

So new kinds and fields are in the page without a line for them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.base.units import DIMENSIONS, human, parse
from dpsim.hardware import Catalogue, gpus, links, nodes
from dpsim.scenario import Scenario
from dpsim.workload.models import MODELS

Schema = Mapping[str, Any]

# Fields that take a name of a catalogue, by the model whose description they take instead; and the
# model of a workload by its key.
_CATALOGUES: dict[str, Callable[[], Mapping[str, Any]]] = {
    "Node": nodes,
    "Gpu": gpus,
    "Link": links,
    "TorchSource": lambda: MODELS,
}


@dataclass(frozen=True, slots=True)
class Field:
    """One value that can be set: its path, what it may be, and the default as text.

    The default is None where it may be left out.
    """

    path: str
    name: str
    help: str
    type: str  # choice, truth, integer, number or text
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None
    default: Any = None
    optional: bool = False
    canonical: Callable[[str], str] | None = None  # a catalogue's own name for an alias


@dataclass(frozen=True, slots=True)
class Union:
    """A part that is of one of several kinds: the key that chooses, and the schema of each."""

    path: str
    name: str
    help: str
    key: str
    kinds: Mapping[str, Schema]
    default: str | None


@cache
def whole() -> Schema:
    """The JSON Schema of scenarios."""
    return Scenario.model_json_schema()


def part(path: str) -> Schema:
    """The schema of the mapping at ``path``, such as ``cluster``."""
    schema = whole()
    for word in path.split("."):
        schema = _plain(schema["properties"][word])
    return schema


def union(path: str) -> Union:
    """The part of several kinds at ``path``, such as ``strategy.sync``."""
    above, _, name = path.rpartition(".")
    given = part(above)["properties"][name]
    options = next(each for each in (given, *given.get("anyOf", ())) if "discriminator" in each)
    key = options["discriminator"]["propertyName"]
    kinds = {kind: _reference(place) for kind, place in options["discriminator"]["mapping"].items()}
    # The mapping is sorted by name; oneOf has the order of the union, in which the usual comes
    # first.
    order = [_plain(option)["properties"][key]["const"] for option in options["oneOf"]]
    default = (given.get("default") or {}).get(key)
    return Union(
        path,
        name,
        given.get("description", ""),
        key,
        {kind: kinds[kind] for kind in order},
        default,
    )


def fields(schema: Schema, path: str, *, without: tuple[str, ...] = ()) -> Iterator[Field]:
    """The single values among the properties of a mapping at ``path``.

    Lists of mappings and parts of their own are left out.
    """
    for name, given in schema["properties"].items():
        found = None if name in without else _field(f"{path}.{name}", name, given)
        if found is not None:
            yield found


def entry(path: str) -> Schema:
    """The schema of an entry of the list at ``path``, such as ``disturbance.slow``."""
    above, _, name = path.rpartition(".")
    return _plain(part(above)["properties"][name]["items"])


def shown(value: object) -> str:
    """A value of a scenario for people.

    Quantities in a unit that suits them, what is left out as nothing.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        # With a point it may be one that dpsim wrote out in full, such as 3125000000.0 B/s; what
        # people write without one stays as it is.
        for dimension in DIMENSIONS:
            with suppress(DpsimError):
                return (
                    human(parse(value, dimension), dimension, 6)
                    if "." in value.partition(" ")[0]
                    else value
                )
    return f"{value:g}" if isinstance(value, float) else str(value)


def _field(path: str, name: str, given: Schema) -> Field | None:
    # pydantic writes what may be None, or of several types, as anyOf; all else stands alone.
    options = [_plain(option) for option in given.get("anyOf", (given,))]
    kept = [option for option in options if option.get("type") != "null"]

    catalogue = next(
        (known() for option in kept if (known := _CATALOGUES.get(str(option.get("title"))))), None
    )
    about: dict[str, Any] = {
        "help": given.get("description", ""),
        "default": given.get("default"),
        "optional": len(kept) < len(options),
    }
    if catalogue is not None:
        return Field(
            path,
            name,
            type="choice",
            choices=tuple(catalogue),
            canonical=_canonical(catalogue),
            **about,
        )

    first = kept[0]
    # A part of its own, which has its own widgets (`union`).
    if "discriminator" in given or any(
        "discriminator" in option or "properties" in option for option in kept
    ):
        return None
    if "enum" in first:
        return Field(path, name, type="choice", choices=tuple(map(str, first["enum"])), **about)
    # One value alone leaves nothing to choose.
    if "const" in first:
        return None
    return _scalar(path, name, first, about)


def _canonical(catalogue: Mapping[str, Any]) -> Callable[[str], str]:
    """A catalogue's own name for one of its names; others as they are."""

    def canonical(name: str) -> str:
        return (
            catalogue.canonical(name)
            if isinstance(catalogue, Catalogue) and name in catalogue
            else name
        )

    return canonical


def _scalar(path: str, name: str, first: Schema, about: dict[str, Any]) -> Field | None:
    kind = first.get("type")
    if kind == "boolean":
        return Field(path, name, type="truth", **about)
    if kind in ("integer", "number"):
        step = 1 if kind == "integer" else 0.0
        # A widget knows no exclusive limits: of numbers the scenario's own check refuses the limit
        # itself.
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
    """A quantity's default as text with its unit: the schema has it as a number of SI units."""
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
    return _reference(schema["$ref"]) if "$ref" in schema else schema


def _reference(place: str) -> Schema:
    found: Schema = whole()["$defs"][place.rpartition("/")[2]]
    return found
