"""Fields of configuration models as page sections: a table per model, a section per kind."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from dpsim.hardware import CalibrationProfile, Gpu, Link, Node, Sourced
from dpsim.scenario import Shape, fields_of, shape_of
from dpsim.workload import MODELS
from tools.reference_pages.field_words import default, takes
from tools.reference_pages.markdown import anchor, code, heading, plain, prose, table

_HARDWARE, _MODELS_PAGE = "hardware.md", "models.md"
_DESCRIBED_ELSEWHERE = (Gpu, Link, Node, CalibrationProfile, Sourced)


@dataclass(frozen=True, slots=True)
class Part:
    """The part of a file at ``path``; ``level`` is the level of its heading."""

    path: str
    shape: Shape
    level: int = 2


def sections(part: Part, elsewhere: Mapping[str, str] | None = None) -> Iterator[str]:
    """Yield the sections of ``part`` and of all parts below it.

    ``elsewhere`` maps paths with a separate page to that page.
    """
    pages = elsewhere or {}
    union = part.shape.union()
    if union is not None:
        yield from _kinds(part, union, pages)
        return
    models = _models(part.shape)
    for model in models:
        # The whole file needs no heading, since the page has one.
        if part.path:
            title = f"`{part.path}`"
            if len(models) > 1:
                title += f" as {_name_by_fields(model)}"
            yield from heading(part.level, title)
            yield from prose(model.__doc__)
        yield from _fields(part, model, pages)
        yield from _below(part, model, pages)


def _models(shape: Shape) -> list[type[BaseModel]]:
    return [model for model in shape.models() if not issubclass(model, _DESCRIBED_ELSEWHERE)]


def _name_by_fields(model: type[BaseModel]) -> str:
    """Name one of several models of a field by its required fields, or else by its first one."""
    fields = fields_of(model)
    required = [key for key, field in fields.items() if field.is_required()]
    first = list(fields)[:1]
    return f"a mapping with {code(required or first)}"


def _kinds(part: Part, union: Shape, pages: Mapping[str, str]) -> Iterator[str]:
    key = str(union.discriminator)
    kinds = union.kinds()
    yield from heading(part.level, f"`{part.path}`")
    rows = []
    for name, model in kinds.items():
        rows.append([f"`{name}`", fields_of(model)[key].description])
    yield from table([f"`{key}`", "what it is"], rows)
    # A kind is described by the docstring of its module; where kinds share a module, that comes
    # once and each is followed by the docstring of its class.
    described: set[str] = set()
    modules = Counter(model.__module__ for model in kinds.values())
    for name, model in kinds.items():
        module = model.__module__
        yield from heading(part.level + 1, f"`{part.path}`: `{name}`")
        if module not in described:
            yield from prose(sys.modules[module].__doc__)
        if modules[module] > 1:
            yield from prose(model.__doc__)
        described.add(module)
        yield from _fields(part, model, pages, key)
        yield from _below(Part(part.path, part.shape, part.level + 1), model, pages)


def _fields(
    part: Part, model: type[BaseModel], pages: Mapping[str, str], without: str | None = None
) -> Iterator[str]:
    """Yield the table of a model's own fields."""
    rows = []
    for key, field in fields_of(model).items():
        if key == without:
            continue
        accepted = _type(part, model, key, field, pages)
        rows.append([f"`{key}`", accepted, default(field), _description(field)])
    yield from table(["field", "takes", "if left out", "what it is"], rows)


def _description(field: FieldInfo) -> str:
    # The list of all models takes half a page, and has a page of its own.
    every_model = ", ".join(MODELS)
    text = plain(field.description or "")
    return text.replace(every_model, f"[these]({_MODELS_PAGE})")


def _type(
    part: Part, model: type[BaseModel], key: str, field: FieldInfo, pages: Mapping[str, str]
) -> str:
    """Return the type of a field, with a link to its description."""
    below = _child(part, model, key)
    if below.path in pages:
        return f"[mapping]({pages[below.path]}{anchor(below.path)})"
    if below.shape.union() is not None:
        return f"[one of these kinds]({anchor(below.path)})"
    # The catalogue's page describes these, once for all fields that accept one.
    models = below.shape.models()
    if any(issubclass(each, (Gpu, Link, Node)) for each in models):
        return f"name, or a [mapping]({_HARDWARE}#own-entries)"
    if len(_models(below.shape)) == 1:
        return f"[{takes(field)}]({anchor(below.path)})"
    return takes(field)


def _child(part: Part, model: type[BaseModel], key: str) -> Part:
    """Return the part under a key, or inside the list or mapping there."""
    shape = shape_of(model).below(key)
    path = f"{part.path}.{key}".lstrip(".")
    # The entries of a list or mapping have models, not the list itself.
    for step, mark in ((0, "[]"), ("*", ".*")):
        inside = shape.below(step)
        if not shape.models() and inside.models():
            return Part(path + mark, inside, part.level)
    return Part(path, shape, part.level)


def _below(part: Part, model: type[BaseModel], pages: Mapping[str, str]) -> Iterator[str]:
    """Yield the sections of the parts under the keys of a model."""
    for key in fields_of(model):
        below = _child(part, model, key)
        if below.path in pages:
            continue
        if _models(below.shape) or below.shape.union() is not None:
            yield from sections(below, pages)


def entry_sections(model: type[BaseModel]) -> Iterator[str]:
    """Yield the fields of a catalogue's entry, below a heading of level 3."""
    part = Part("", shape_of(model), 4)
    yield from prose(model.__doc__)
    yield from _fields(part, model, {})
    yield from _below(part, model, {})
