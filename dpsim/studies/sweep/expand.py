"""Expand the files of a sweep into points, all checked before the first is simulated."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from dpsim.base.errors import DpsimError, ScenarioError
from dpsim.base.files import CODE_REFUSED
from dpsim.scenario import (
    SHOWN_PROBLEMS,
    Document,
    Node,
    Problem,
    Scenario,
    apply_overrides,
    error,
    load_yaml,
    validate,
)
from dpsim.studies.kept_scale import is_of_calibration, kept_scale
from dpsim.studies.sweep.axis import Axis, Values, axes, combine, line_about
from dpsim.studies.sweep.point import Point, base_of, point

MOST_POINTS = 100_000
_SUFFIXES = (".yaml", ".yml")
# A YAML file in a folder without any of these keys is not a scenario.
_SCENARIO_KEYS = ("cluster", "testbed", "workload")
PathLike: TypeAlias = "str | os.PathLike[str]"
Maker: TypeAlias = Callable[[bytes, Sequence[Values]], list[Point]]


@dataclass(frozen=True, slots=True)
class Plan:
    """The points of a sweep in order, and notes on the parts of files that were left out."""

    points: tuple[Point, ...]
    notes: tuple[str, ...] = ()

    @property
    def paths(self) -> tuple[str, ...]:
        """The varied fields of all files, in order of appearance."""
        return tuple(dict.fromkeys(path for each in self.points for path in each.varied))

    @property
    def files(self) -> tuple[str, ...]:
        """The files in order."""
        return tuple(dict.fromkeys(each.file for each in self.points))


def points_here(base: bytes, values: Sequence[Values]) -> list[Point]:
    """Return the points of a base with values, made by this process."""
    return [point(base, each) for each in values]


def plan(
    paths: Iterable[PathLike], overrides: Iterable[str] = (), make: Maker = points_here
) -> Plan:
    """Return the points of scenario files, and of all scenario files in folders.

    ``key=value`` overrides are applied to each file. ``make`` returns the points of a base with
    values, in order.

    Raises ScenarioError with the problems of all files, and for a value that its field refuses in
    every point; DpsimError if there are no files, or more than 100,000 points. Points whose values
    conflict are points with an error.
    """
    fixed, points, notes, refused = list(overrides), list[Point](), list[str](), list[str]()
    for path, chosen in _files(paths):
        try:
            document = load_yaml(path)
            if not chosen and not any(document.root.child(key) for key in _SCENARIO_KEYS):
                notes.append(
                    f"{path}: left out, no scenario: it has none of {', '.join(_SCENARIO_KEYS)}"
                )
                continue
            own, note = _points_of_file(apply_overrides(document, fixed, Scenario), make)
            points += own
            notes += [note] if note else []
        except ScenarioError as problem:
            refused.append(str(problem))
    if refused:
        raise ScenarioError("\n".join(refused))
    if len(points) > MOST_POINTS:
        raise DpsimError(
            f"a sweep must have at most {MOST_POINTS:,} points, but got {len(points):,}: set "
            "sweep.run_cap"
        )
    return Plan(tuple(points), tuple(notes))


def _files(paths: Iterable[PathLike]) -> list[tuple[Path, bool]]:
    """Return each file once, and whether it was named itself.

    Folders are searched in the order of names.
    """
    files: dict[Path, bool] = {}
    for path_given in map(Path, paths):
        inside = sorted(_inside(path_given)) if path_given.is_dir() else [path_given]
        if not inside:
            raise DpsimError(f"{path_given}: must hold scenario files (*.yaml), but holds none")
        for path in inside:
            files[path] = files.get(path, False) or path == path_given
    if not files:
        raise DpsimError("a sweep must have at least one file or folder, but got none")
    return list(files.items())


def _inside(folder: Path) -> Iterator[Path]:
    for path in folder.rglob("*"):
        hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
        if path.suffix in _SUFFIXES and path.is_file() and not hidden:
            yield path


def _points_of_file(document: Document, make: Maker) -> tuple[list[Point], str | None]:
    """Return the points of one file, and a note on omitted parts. Raises ScenarioError."""
    scenario = validate(document, Scenario)
    config = scenario.sweep
    if config is None:
        return [point(base_of(document, []), ())], None
    varied = axes(config, document)
    total, chosen = combine(config, varied)
    number = total if config.run_cap is None else min(total, config.run_cap)
    # Check the number before the points are made and validated.
    if number > MOST_POINTS:
        place = document.root.nearest(("sweep",)).place
        rule = f"must have at most {MOST_POINTS:,} points (or a run_cap), but got {number:,}"
        raise error([Problem(place, ("sweep",), rule)])
    values = list(chosen)
    if not any(is_of_calibration(each.path) for each in varied):
        document = kept_scale(document, scenario)
    points = make(base_of(document, varied), values)
    _check_points(points, varied, values)
    if number == total:
        return points, None
    return points, f"{document.source}: run_cap: the first {number:,} of {total:,} points"


def _check_points(points: list[Point], varied: list[Axis], values: Sequence[Values]) -> None:
    """Raise ScenarioError if no point of a file is valid, or if a value is invalid in every point.

    These are mistakes in the file. In other invalid points, values merely conflict.
    """
    broken = [
        (each.error, chosen) for each, chosen in zip(points, values, strict=True) if each.error
    ]
    # Code that is refused in one point aborts the whole sweep.
    lines = [line for message, _ in broken for line in message.splitlines()]
    if (refused := next((line for line in lines if CODE_REFUSED in line), None)) is not None:
        raise ScenarioError(refused)
    if broken and len(broken) == len(points):
        messages = dict.fromkeys(message for message, _ in broken)
        raise ScenarioError("\n".join(list(messages)[:SHOWN_PROBLEMS]))
    # A value that every point refuses is wrong; if some accept it, it only conflicts with others.
    errors: dict[tuple[str, ...], list[str | None]] = defaultdict(list)
    for message, chosen in broken:
        for axis, value in zip(varied, chosen, strict=True):
            errors[_value_key(axis, value)].append(line_about(message, axis.path, _places(value)))
    fine = _valid_values(points, varied, values) if broken else set()
    mistakes = dict.fromkeys(
        own[0] for named, own in errors.items() if None not in own and named not in fine
    )
    if mistakes:
        raise ScenarioError("\n".join(line for line in mistakes if line))


def _valid_values(
    points: list[Point], varied: list[Axis], values: Sequence[Values]
) -> set[tuple[str, ...]]:
    """Return the values that valid points have."""
    # Points share the places of their values, whose text is expensive.
    valid = {
        (axis.path, id(value.place), id(value.key_place)): (axis, value)
        for each, chosen in zip(points, values, strict=True)
        if not each.error
        for axis, value in zip(varied, chosen, strict=True)
    }
    return {_value_key(axis, value) for axis, value in valid.values()}


def _value_key(axis: Axis, value: Node) -> tuple[str, ...]:
    return (*_places(value), axis.path)


def _places(value: Node) -> tuple[str, str]:
    return str(value.place), str(value.key_place)
