"""A scenario as text said it, and the model that it becomes.

Plain values, each with the place it came from, so that every problem can be shown where it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar

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
    """Where a value stands.

    A file with line and column (from 1), or another source, such as ``--set cluster.nodes=8``.
    """

    source: str
    line: int | None = None
    column: int = 1

    def __str__(self) -> str:
        return self.source if self.line is None else f"{self.source}:{self.line}:{self.column}"

    @property
    def order(self) -> tuple[bool, int, int]:
        """Sorts places of a file from top to bottom, and sources without lines behind them."""
        return (self.line is None, self.line or 0, self.column)


@dataclass(frozen=True, slots=True)
class Node:
    """A value and its place; in a mapping also the place of its key.

    Lists and mappings hold nodes.
    """

    value: Scalar | tuple[Node, ...] | dict[str, Node]
    place: Place
    key_place: Place | None = None

    def plain(self) -> Plain:
        """The value as plain lists and dicts, without places."""
        if isinstance(self.value, dict):
            return {key: node.plain() for key, node in self.value.items()}
        if isinstance(self.value, tuple):
            return [node.plain() for node in self.value]
        return self.value

    def leaves(self, path: Path = ()) -> Iterator[tuple[Path, Node]]:
        """Each value that is no list and no mapping, from top to bottom, with its path."""
        inside: Iterable[tuple[str | int, Node]] = ()
        if isinstance(self.value, dict):
            inside = self.value.items()
        elif isinstance(self.value, tuple):
            inside = enumerate(self.value)
        else:
            yield path, self
        for part, node in inside:
            yield from node.leaves((*path, part))

    def child(self, part: str | int) -> Node | None:
        """The node below a key or a list index, or None."""
        if isinstance(self.value, dict) and isinstance(part, str):
            return self.value.get(part)
        if isinstance(self.value, tuple) and isinstance(part, int) and 0 <= part < len(self.value):
            return self.value[part]
        return None

    def at(self, path: Path) -> Node | None:
        """The node at ``path``, or None where nothing stands there."""
        node: Node | None = self
        for part in path:
            node = node.child(part) if node else None
        return node

    def nearest(self, path: Path) -> Node:
        """The node at ``path``, or else the nearest one above it that exists."""
        node = self
        for part in path:
            below = node.child(part)
            if below is None:
                return node
            node = below
        return node

    def put(self, path: Path, new: Node) -> Node:
        """A copy with ``new`` at ``path``, whose parent must exist; nothing else is copied."""
        if not path:
            return new
        first, *rest = path
        old = self.child(first)
        # The parent exists, so that only the last part of a path may have nothing there yet.
        below = (old or new).put(tuple(rest), new)
        if isinstance(self.value, dict) and isinstance(first, str):
            return replace(self, value={**self.value, first: below})
        assert isinstance(self.value, tuple)
        assert isinstance(first, int)
        return replace(self, value=(*self.value[:first], below, *self.value[first + 1 :]))


@dataclass(frozen=True, slots=True)
class Document:
    """One scenario's values with their places.

    ``source`` is the file's name as the user gave it.
    """

    source: str
    root: Node

    @classmethod
    def of(cls, values: Mapping[str, object], source: str) -> Document:
        """A document of plain values that stand in no file.

        Problems in them are shown with ``source``.
        """
        return cls(source, node_of(values, Place(source)))

    def plain(self) -> Plain:
        """All values as plain lists and dicts."""
        return self.root.plain()


def node_of(value: object, place: Place) -> Node:
    """Nodes of plain lists, dicts and scalars, all at one place."""
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
    """One thing that is wrong: where it stands, its path, and the rule with the value.

    The path in the scenario may be empty.
    """

    place: Place
    path: Path
    rule: str

    def __str__(self) -> str:
        return ": ".join(filter(None, (str(self.place), path_text(self.path), self.rule)))


def error(problems: Iterable[Problem]) -> ScenarioError:
    """One error with a line for each problem, sorted by place; very many are cut short."""
    in_order = sorted(problems, key=lambda problem: problem.place.order)
    # Equal lines are said once: several rules may break at one place in the same words.
    lines = list(dict.fromkeys(str(problem) for problem in in_order))
    if len(lines) > SHOWN_PROBLEMS:
        lines[SHOWN_PROBLEMS:] = [f"... and {len(lines) - SHOWN_PROBLEMS} more problems"]
    return ScenarioError("\n".join(lines))


def path_text(path: Path) -> str:
    """``strategy.faults[0].at`` for ``("strategy", "faults", 0, "at")``; odd keys are quoted."""
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
    """A value for a message, as YAML has it, at most 60 characters.

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
    # Cut before quoting, so that an endless value is not quoted whole and the closing quote stays.
    if isinstance(value, str):
        return repr(_cut(value))
    # YAML writes numbers that are not finite with a dot.
    return _cut({"nan": ".nan", "inf": ".inf", "-inf": "-.inf"}.get(repr(value), repr(value)))


def _cut(text: str) -> str:
    return text if len(text) <= SHOWN_CHARACTERS else text[: SHOWN_CHARACTERS - 3] + "..."
