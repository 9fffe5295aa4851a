"""``--set key=value``.

Replaces values in a document, so that problems with the new values are reported for the option.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_origin

from pydantic import BaseModel

from dpsim.base.errors import ScenarioError
from dpsim.scenario.document import Document, Node, Path, Place, Problem, error, node_of, show
from dpsim.scenario.shape import Shape, fields_of, shape_of
from dpsim.scenario.wording import unknown_key
from dpsim.scenario.yaml_text import parse

# Sections that a path may omit, if the scenario itself has no such field.
_SECTIONS = ("strategy", "workload", "cluster", "run", "disturbance")
_KEY = re.compile(r"[^.\[\]\s]+(?:\.[^.\[\]\s]+|\[[0-9]{1,6}\])*")


@dataclass(frozen=True, slots=True)
class Override:
    """A new value for a path.

    Problems with the value are shown with its place, the text of the override.
    """

    path: str
    value: Node

    @property
    def place(self) -> Place:
        """The place that is shown before problems with the value."""
        return self.value.place

    @classmethod
    def parse(cls, text: str, option: str = "--set") -> Override:
        """Parse ``key=value`` of an ``option``, the value as YAML.

        ``cluster.nodes=8``, ``faults[0].at=3 s``, ``network={nic: 100GbE}``.
        """
        shown = text if text.isprintable() and len(text) <= 120 else show(text)
        place = Place(f"{option} {shown}")
        path, equals, value = text.partition("=")
        if not equals or not _KEY.fullmatch(path.strip()):
            raise error([Problem(place, (), "must be key=value, such as cluster.nodes=8")])
        node = parse(value, place.source, place) or Node(None, place)
        return cls(path.strip(), replace(node, key_place=place))

    @classmethod
    def of(cls, path: str, value: object, source: str) -> Override:
        """Return a plain value for ``path``; ``source`` is shown before its problems."""
        return cls(path, node_of(value, Place(source)))


class _PathError(Exception):
    def __init__(self, path: Path, rule: str) -> None:
        self.path = path
        self.rule = rule


def apply_overrides(
    document: Document, overrides: Iterable[str | Override], model: type[BaseModel]
) -> Document:
    """Return a copy of ``document`` with the overrides applied in order.

    ``model`` resolves the paths, which may be short (`full_path`). Missing mappings on the way are
    created with the defaults of ``model``. Setting the key that selects a kind drops the document's
    fields that the new kind does not have. `validate` checks the values later.

    Raises ScenarioError for overrides that are not ``key=value`` and for paths through unknown
    keys.
    """
    root = document.root
    # Try all of them, so that every wrong one is reported at once.
    refused: list[str] = []
    for item in overrides:
        try:
            override = item if isinstance(item, Override) else Override.parse(item)
            if isinstance(item, str):
                override = replace(override, path=full_path(override.path, model))
            root = _set(root, override, model, document.source)
        except ScenarioError as err:
            refused.append(str(err))
        except _PathError as err:
            refused.append(str(error([Problem(override.place, err.path, err.rule)])))
    if refused:
        raise ScenarioError("\n".join(refused))
    return replace(document, root=root)


def _set(root: Node, override: Override, model: type[BaseModel], source: str) -> Node:
    *way, last = _split_path(override.path)
    path: Path = ()
    shape = shape_of(model)
    for text in way:
        node = root.nearest(path)
        part = _part(text, node, path)
        below = node.child(part)
        # Start from the default's values, so that only the overridden one differs from it.
        if below is None or below.value is None:
            made = _default_mapping(part, shape.select(node), path, override.place, source)
            root = root.put((*path, part), made)
        path, shape = (*path, part), shape.select(node).below(part)
    node = root.nearest(path)
    part = _part(last, node, path)
    union = shape.union()

    if union and part == union.discriminator:
        kind = union.kinds().get(str(override.value.value))
        if kind is not None:
            root = root.put(path, _of_kind(node, kind, override.place, source))
    return root.put((*path, part), override.value)


def full_path(key: str, model: type[BaseModel], parent: str = "") -> str:
    """Return the path that ``key`` is short for, as ``sync.kind`` is for ``strategy.sync.kind``.

    The key is a field of the model itself, else of a section, else of ``parent``. If several
    sections have the field, the first one is used.
    """
    first = key.partition(".")[0].partition("[")[0]
    fields, shape = fields_of(model), shape_of(model)
    if first in fields:
        return key
    for section in _SECTIONS:
        if section in fields and first in shape.below(section).fields():
            return f"{section}.{key}"
    return f"{parent}.{key}" if parent else key


def _split_path(path: str) -> list[str]:
    return path.replace("[", ".").replace("]", "").split(".")


def _part(text: str, node: Node, path: Path) -> str | int:
    """Return the key or index that ``text`` denotes in ``node``."""
    if isinstance(node.value, dict):
        return text
    if not isinstance(node.value, tuple):
        raise _PathError(path, f"must be a mapping to have {show(text)}, but got {show(node)}")
    if not (re.fullmatch("[0-9]{1,6}", text) and int(text) < len(node.value)):
        rule = (
            f"must be followed by an index below {len(node.value)}"
            if node.value
            else "must have entries"
        )
        raise _PathError(path, f"{rule}, but got {show(text)}")
    return int(text)


def _default_mapping(part: str | int, shape: Shape, path: Path, place: Place, source: str) -> Node:
    """Return the mapping for ``part``, which the document lacks.

    The mapping holds the values of its default, if any.
    """
    field = shape.fields().get(str(part))
    if field is None and not shape.any_key:
        raise _PathError((*path, part), unknown_key(str(part), shape))
    # Before validation, a default that depends on other fields is unknown.
    if field is None or field.default_factory_takes_validated_data:
        return Node({}, place, place)
    default = field.get_default(call_default_factory=True)
    made = node_of(_stated_values(default) if isinstance(default, BaseModel) else {}, Place(source))
    return replace(made, place=place, key_place=place)


def _stated_values(model: BaseModel) -> dict[str, object]:
    """Return the values given to create ``model``, as in a file, and always its kind."""
    as_json: Mapping[str, object] = model.model_dump(mode="json", by_alias=True)
    stated: dict[str, object] = {}
    keys = zip(type(model).model_fields.items(), fields_of(type(model)), strict=True)
    for (name, field), key in keys:
        is_kind = get_origin(field.annotation) is Literal
        if name not in model.model_fields_set and not is_kind:
            continue
        value = getattr(model, name)
        if isinstance(value, BaseModel):
            stated[key] = _stated_values(value)
        else:
            stated[key] = value if isinstance(value, str) else as_json[key]
    return stated


def _of_kind(node: Node, kind: type[BaseModel], place: Place, source: str) -> Node:
    """Return ``node`` without the fields that ``kind`` does not have.

    Fields that do not come from ``source`` stay and are refused by name: the user has just set
    them.
    """
    assert isinstance(node.value, dict)
    fields = fields_of(kind)
    kept = {
        key: below
        for key, below in node.value.items()
        if key in fields or below.place.source != source
    }
    return Node(kept, place, node.key_place)
