"""A scenario's values as written, before they become a model.

Each plain value keeps its place in the text, so that every problem can be shown there.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeAlias, TypeVar

from pydantic import BaseModel

from dpsim.base.errors import ScenarioError

Scalar: TypeAlias = str | int | float | bool | None
Plain: TypeAlias = "Scalar | list[Plain] | dict[str, Plain]"
Path: TypeAlias = tuple[str | int, ...]
Model = TypeVar("Model", bound=BaseModel)

SHOWN_CHARACTERS = 60
SHOWN_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Place:
    """The place of a value.

    It is a line and column (from 1) of a file, or another source, such as ``--set
    cluster.nodes=8``.
    """

    source: str
    line: int | None = None
    column: int = 1

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}:{self.column}"

    def __reduce__(self) -> tuple[Any, ...]:  # much faster than what dataclasses do
        return Place, (self.source, self.line, self.column)

    @property
    def order(self) -> tuple[bool, int, int]:
        """A sort key: places of a file from top to bottom, then sources without lines."""
        return (self.line is None, self.line or 0, self.column)


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place, and in a mapping the place of its key.

    Lists and mappings hold nodes.
    """

    value: Scalar | tuple[Node, ...] | dict[str, Node]
    place: Place
    key_place: Place | None = None

    def __reduce__(self) -> tuple[Any, ...]:  # much faster than what dataclasses do
        return Node, (self.value, self.place, self.key_place)

    def plain(self) -> Plain:
        """Return the value as plain lists and dicts, without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    def leaves(self, path: Path = ()) -> Iterator[tuple[Path, Node]]:
        """Yield each value that holds no other, from top to bottom, with its path."""
        inside: Iterable[tuple[str | int, Node]] = ()
        if isinstance(self.value, dict):
            inside = self.value.items()
        elif isinstance(self.value, tuple):
            inside = enumerate(self.value)
        if not (isinstance(self.value, (dict, tuple)) and self.value):
            yield path, self
        for part, node in inside:
            yield from node.leaves((*path, part))

    def child(self, part: str | int) -> Node | None:
        """Return the node under a key or a list index, or None."""
        if isinstance(self.value, dict) and isinstance(part, str):
            return self.value.get(part)
        if isinstance(self.value, tuple) and isinstance(part, int) and 0 <= part < len(self.value):
            return self.value[part]
        return None

    def at(self, path: Path) -> Node | None:
        """Return the node at ``path``, or None if there is none."""
        node: Node | None = self
        for part in path:
            node = node.child(part) if node else None
        return node

    def nearest(self, path: Path) -> Node:
        """Return the node at ``path``, or its nearest existing ancestor."""
        node = self
        for part in path:
            below = node.child(part)
            if below is None:
                return node
            node = below
        return node

    def put(self, path: Path, new: Node) -> Node:
        """Return a copy with ``new`` at ``path``, whose parent must exist; share other nodes."""
        if not path:
            return new
        first, *rest = path
        old = self.child(first)
        # The parent exists, so only the last part of a path may be missing.
        below = (old or new).put(tuple(rest), new)
        if isinstance(self.value, dict) and isinstance(first, str):
            return replace(self, value={**self.value, first: below})
        assert isinstance(self.value, tuple)
        assert isinstance(first, int)
        return replace(self, value=(*self.value[:first], below, *self.value[first + 1 :]))


@dataclass(frozen=True, slots=True)
class Document:
    """The values of one scenario with their places.

    ``source`` is the file's name as the user gave it.
    """

    source: str
    root: Node

    @classmethod
    def of(cls, values: Mapping[str, object], source: str) -> Document:
        """Return a document of plain values that come from no file.

        Their problems are shown with ``source``.
        """
        return cls(source, node_of(values, Place(source)))

    def plain(self) -> Plain:
        """Return all values as plain lists and dicts."""
        return self.root.plain()


def node_of(value: object, place: Place) -> Node:
    """Return nodes of plain lists, dicts and scalars, all at one place."""
    if isinstance(value, Mapping):
        return Node({str(key): node_of(below, place) for key, below in value.items()}, place, place)
    if isinstance(value, (list, tuple)):
        return Node(tuple(node_of(below, place) for below in value), place, place)
    if value is None or isinstance(value, (str, int, float)):
        return Node(value, place, place)
    raise TypeError(
        f"a scenario holds text, numbers, lists and mappings, not {type(value).__name__}"
    )


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem: its place, its path, and the broken rule with the value.

    The path in the scenario may be empty.
    """

    place: Place
    path: Path
    rule: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (str(self.place), path_text(self.path), self.rule)))


def error(problems: Iterable[Problem]) -> ScenarioError:
    """Return one error with a line for each problem, sorted by place; long lists are cut."""
    in_order = sorted(problems, key=lambda problem: problem.place.order)
    # Show equal lines once: several rules may break at one place in the same words.
    lines = list(dict.fromkeys(str(problem) for problem in in_order))
    if len(lines) > SHOWN_PROBLEMS:
        lines[SHOWN_PROBLEMS:] = [f"... and {len(lines) - SHOWN_PROBLEMS} more problems"]
    return ScenarioError("\n".join(lines))


def path_text(path: Path) -> str:
    """Return ``strategy.faults[0].at`` for ``("strategy", "faults", 0, "at")``; quote odd keys."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            is_plain = re.fullmatch(r"[\w.+-]+", part) and len(part) <= SHOWN_CHARACTERS
            name = part if is_plain else show(part)
            text += f".{name}" if text else name
    return text


def show(value: object) -> str:
    """Return a value as YAML for a message, in at most 60 characters.

    ``'25 Gb'``, ``true``, ``nothing``, ``a list``.
    """
    if isinstance(value, Node):
        value = value.value
    if isinstance(value, (dict, list, tuple)):
        return "a mapping" if isinstance(value, dict) else "a list"
    if value is None:
        return "nothing"
    if isinstance(value, bool):
        return str(value).lower()
    # Cut before quoting, so that a very long value is not quoted whole and keeps its closing quote.
    if isinstance(value, str):
        return repr(_cut(value))
    # YAML writes infinity and NaN with a dot.
    return _cut({"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}.get(repr(value), repr(value)))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
