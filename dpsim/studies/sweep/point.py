"""A scenario of a sweep, and how it is made from its file."""

from __future__ import annotations

import hashlib
import json
import pickle
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from dpsim.base.config import BY_CONTENT
from dpsim.base.errors import ScenarioError
from dpsim.hardware import Sourced
from dpsim.scenario import Document, Node, Override, Scalar, Scenario, apply_overrides, validate
from dpsim.studies.sweep.axis import Axis, Values, below, split

# No answer depends on how it is asked for or shown.
_OTHERS = {"cli.py", "commands", "report", "__pycache__"}


@dataclass(frozen=True, slots=True)
class Point:
    """A scenario of a sweep: its file, the values of its varied fields by path, and its key.

    ``content`` is the pickled scenario. For values that make no valid scenario it is empty, ``key``
    is None and ``error`` is the reason.
    """

    file: str
    name: str | None
    seed: int | None
    varied: dict[str, Scalar]
    key: str | None = None
    content: bytes = b""
    error: str | None = None

    @property
    def scenario(self) -> Scenario:
        """The unpickled scenario of a valid point."""
        loaded = pickle.loads(self.content)  # nosec B301 - made by this process
        assert isinstance(loaded, Scenario)
        return loaded


def point(document: Document, axes: list[Axis], values: Values) -> Point:
    """Make the scenario of ``document`` with ``values`` on ``axes``.

    If its values conflict, the point has an error.
    """
    given = {axis.path: value for axis, value in zip(axes, values, strict=True)}
    # Validated here, in the process that the user waits for, and pickled for the one that
    # simulates: workers need neither the file nor its folder.
    try:
        scenario = validate(_with(document, given), Scenario)
    except ScenarioError as error:
        return _broken(document, given, str(error))
    varied = {path: _told(scenario, path, value) for path, value in given.items()}
    key, content = scenario_key(scenario), pickle.dumps(scenario)
    return Point(document.source, scenario.name, scenario.run.seed, varied, key, content)


def _with(document: Document, given: dict[str, Node]) -> Document:
    """Return the document without its sweep, with values set.

    Mappings are set before their contents, kinds before their fields.
    """
    assert isinstance(document.root.value, dict)
    alone = {key: node for key, node in document.root.value.items() if key != "sweep"}
    bare = replace(document, root=replace(document.root, value=alone))
    # A mapping set later would replace its contents, and a kind set later would drop the fields of
    # the one before.
    order = sorted(given, key=lambda path: (len(split(path)), split(path)[-1] != "kind"))
    return apply_overrides(bare, [Override(path, given[path]) for path in order], Scenario)


def _broken(document: Document, given: dict[str, Node], error: str) -> Point:
    """Return an invalid point, with as much as is known without a scenario."""
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


def _told(scenario: Scenario, path: str, given: Node) -> Scalar:
    """Return the value as the scenario holds it, in SI units.

    If the scenario holds more than a number or a text, return the value as given.
    """
    value: object = scenario
    for part in split(path):
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

    Canonical: all defaults written out, quantities in SI units, keys sorted; files that it names
    stand for what they hold now, and the sweep that it may be part of does not count. A torch model
    counts by its own file, or by its module's name, not by what that imports.
    """
    content: dict[str, Any] = scenario.model_dump(
        mode="json", by_alias=True, exclude={"sweep"}, context=BY_CONTENT
    )
    # Other code may answer the same scenario otherwise.
    asked = {"dpsim": _code(Path(__file__).parents[2]), "scenario": content}
    text = json.dumps(asked, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def _code(root: Path) -> str:
    """The SHA-256 of dpsim's code and catalogue, since two commits may have the same version."""
    found = hashlib.sha256()
    for path in sorted(root.rglob("*")):
        name = path.relative_to(root)
        if path.is_file() and _OTHERS.isdisjoint(name.parts):
            found.update(f"{name}\n".encode() + path.read_bytes())
    return found.hexdigest()
