"""A scenario of a sweep, and how it is made from its file."""

from __future__ import annotations

import hashlib
import json
import os
import pickle
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache, lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from dpsim.base.config import BY_CONTENT
from dpsim.base.errors import ScenarioError
from dpsim.hardware import Sourced, own_folder
from dpsim.scenario import Document, Node, Override, Scalar, Scenario, apply_overrides, validate
from dpsim.studies.sweep.axis import Axis, Values, below, split_path

_PACKAGE = Path(__file__).parents[2]
_COMPRESSED_FROM = 200_000  # bytes of a pickle

# Code on which no result depends.
_IRRELEVANT = {"cli.py", "commands", "report", "__pycache__"}


class Recipe(NamedTuple):
    """What a process needs to make a point's scenario: its file's `base`, and values of fields."""

    base: bytes
    values: Values

    @property
    def scenario(self) -> Scenario:
        """The scenario."""
        return validate(_with(*open_base(self.base), self.values), Scenario)


Content: TypeAlias = Recipe | bytes
# A point's name, seed, varied values, key and error, or None.
Made: TypeAlias = "tuple[str | None, int | None, list[Scalar], str | None, str | None] | None"


def scenario_of(content: Content) -> Scenario:
    """Return the scenario of a recipe, or a pickled one."""
    if isinstance(content, Recipe):
        return content.scenario
    loaded = pickle.loads(content)  # nosec B301 - made by this sweep
    assert isinstance(loaded, Scenario)
    return loaded


@dataclass(frozen=True, slots=True)
class Point:
    """A scenario of a sweep: its file, the values of its varied fields by path, and its key.

    ``content`` is the scenario, pickled if it depends on this machine's files. If it is invalid,
    ``content`` is empty, ``key`` is None and ``error`` is the reason.
    """

    file: str
    name: str | None
    seed: int | None
    varied: dict[str, Scalar]
    key: str | None = None
    content: Content = b""
    error: str | None = None

    @property
    def scenario(self) -> Scenario:
        """The scenario of a valid point."""
        return scenario_of(self.content)


def base_of(document: Document, axes: Sequence[Axis]) -> bytes:
    """Return the base of the points of ``document`` with values on ``axes``.

    The base is the document without its sweep, and the axes' paths, pickled.
    """
    assert isinstance(document.root.value, dict)
    entries = {key: node for key, node in document.root.value.items() if key != "sweep"}
    bare = replace(document, root=replace(document.root, value=entries))
    return zlib.compress(pickle.dumps((bare, tuple(axis.path for axis in axes))))


@lru_cache(maxsize=8)
def open_base(base: bytes) -> tuple[Document, tuple[str, ...]]:
    """Return the document and the paths of a base."""
    document, paths = pickle.loads(zlib.decompress(base))  # nosec B301 - made by this sweep
    return document, paths


def point(base: bytes, values: Values) -> Point:
    """Make the point of a base with ``values``; it has an error if they conflict."""
    return _make(base, values)[0]


class _Folder(os.PathLike[str]):
    """The folder of a scenario's file, and whether it was used."""

    def __init__(self, document: Document) -> None:
        self._path = str(Path(document.source).parent)
        self.is_needed = False

    def __fspath__(self) -> str:
        self.is_needed = True
        return self._path


def _make(base: bytes, values: Values) -> tuple[Point, bool]:
    """Return a point, and whether its scenario names files of this machine."""
    document, paths = open_base(base)
    value_by_path = dict(zip(paths, values, strict=True))
    folder = _Folder(document)
    try:
        scenario = validate(_with(document, paths, values), Scenario, folder)
    except ScenarioError as error:
        return _broken(document, value_by_path, str(error)), folder.is_needed
    varied = {path: _scenario_value(scenario, path, value) for path, value in value_by_path.items()}
    # The pickle contains the files' present content.
    content = pickle.dumps(scenario) if folder.is_needed else Recipe(base, values)
    key, seed = scenario_key(scenario), scenario.run.seed
    made = Point(document.source, scenario.name, seed, varied, key, content)
    return made, folder.is_needed


def pack(content: object) -> bytes:
    """Pickle and compress ``content`` for a worker."""
    # Pickle stores the objects that points share once. Compression only pays off for scenarios that
    # were pickled separately.
    pickled = pickle.dumps(content)
    return zlib.compress(pickled, 1 if len(pickled) > _COMPRESSED_FROM else 0)


def unpack(packed: bytes) -> Any:
    """Return what `pack` packed."""
    return pickle.loads(zlib.decompress(packed))  # nosec B301 - this sweep's own


def make_elsewhere(packed: bytes) -> list[Made]:
    """Make points on another machine, for `receive_point`; None for points that it cannot make.

    None stands for scenarios that name files, or for all if code or user's catalogue differ.
    ``packed`` has the `surroundings` of the asking machine, the base and the values.
    """
    theirs, base, values = unpack(packed)
    if theirs != surroundings():
        return [None] * len(values)
    points = (_make(base, each) for each in values)
    return [
        None
        if needs_files
        else (made.name, made.seed, [*made.varied.values()], made.key, made.error)
        for made, needs_files in points
    ]


def receive_point(base: bytes, values: Values, made: Made) -> Point:
    """Return a point that was made elsewhere, or make it here."""
    if made is None:
        return point(base, values)
    name, seed, varied, key, error = made
    document, paths = open_base(base)
    content = b"" if key is None else Recipe(base, values)
    return Point(
        document.source, name, seed, dict(zip(paths, varied, strict=True)), key, content, error
    )


def _with(document: Document, paths: tuple[str, ...], values: Values) -> Document:
    """Return the document with values set: mappings before their contents, kinds before fields."""
    # A mapping set later would replace its contents, and a kind set later would drop fields.
    by_path = dict(zip(paths, values, strict=True))
    order = sorted(
        by_path, key=lambda path: (len(split_path(path)), split_path(path)[-1] != "kind")
    )
    overrides = [Override(path, by_path[path]) for path in order]
    return apply_overrides(document, overrides, Scenario)


def _broken(document: Document, given: dict[str, Node], error: str) -> Point:
    """Return an invalid point, with what is known without a scenario."""
    name = given.get("name") or document.root.at(("name",))
    seed = given.get("run.seed") or document.root.at(("run", "seed"))
    seed_value = None
    if seed is None:
        seed_value = 0  # the default
    elif isinstance(seed.value, int):
        seed_value = seed.value
    return Point(
        document.source,
        name.value if name and isinstance(name.value, str) else None,
        seed_value,
        {path: _plain(value) for path, value in given.items()},
        error=error,
    )


def _scenario_value(scenario: Scenario, path: str, given: Node) -> Scalar:
    """Return the scenario's value in SI units, or the given one unless it is a number or text."""
    value: object = scenario
    for part in split_path(path):
        value = below(value, part)
    if isinstance(value, Sourced):
        value = value.value
    return value if value is None or isinstance(value, (str, int, float)) else _plain(given)


def _plain(node: Node) -> Scalar:
    """Return a number or text unchanged, a list or mapping as JSON."""
    plain = node.plain()
    return json.dumps(plain) if isinstance(plain, (list, dict)) else plain


def scenario_key(scenario: Scenario) -> str:
    """Return the SHA-256 of the canonical scenario and of dpsim, 64 hexadecimal digits.

    Canonical: with all defaults, quantities in SI units, and sorted keys, without its sweep. Named
    files count by their present content, a torch model by its own file or its module's name, not by
    the modules that it imports.
    """
    content: dict[str, Any] = scenario.model_dump(
        mode="json", by_alias=True, exclude={"sweep"}, context=BY_CONTENT
    )
    # Other code may give other results.
    identity = {"dpsim": _code(_PACKAGE), "scenario": content}
    text = json.dumps(identity, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _code(root: Path) -> str:
    """The SHA-256 of dpsim's code and catalogue; two commits may have the same version."""
    digest = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_file() and _IRRELEVANT.isdisjoint(name.parts):
            digest.update(f"{name}\n".encode() + path.read_bytes())
    return digest.hexdigest()


def surroundings() -> tuple[str, str | None]:
    """Return digests of what a scenario's validation depends on besides the scenario."""
    folder = own_folder()
    return _code(_PACKAGE), None if folder is None else _code(folder)
