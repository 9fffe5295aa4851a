"""A varied field of a sweep: its values, with their places in the file."""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice, product

import numpy as np
from pydantic import BaseModel

from dpsim.scenario import (
    Document,
    Node,
    ParameterConfig,
    Problem,
    Scenario,
    SweepConfig,
    error,
    node_of,
    shape_of,
)

Values = tuple[Node, ...]  # one for each axis


@dataclass(frozen=True, slots=True)
class Axis:
    """A field's path, its values or range, and their place in the file.

    ``whole``: the field takes integers only.
    """

    path: str
    parameter: ParameterConfig
    node: Node
    whole: bool

    @property
    def values(self) -> Values:
        """The listed values in order."""
        listed = self.node.child("values")
        assert listed is not None
        assert isinstance(listed.value, tuple)
        return tuple(replace(value, key_place=self.node.key_place) for value in listed.value)

    def draws(self, seed: int) -> Iterator[Node]:
        """Yield random values without end, which depend only on the seed and the path."""
        # crc32 instead of hash(), which Python salts in each process.
        stream = np.random.default_rng([seed, zlib.crc32(self.path.encode())])
        place = self.node.key_place or self.node.place
        while True:
            if self.parameter.is_range:
                yield node_of(self._in_range(float(stream.random())), place)
            else:
                yield self.values[int(stream.integers(len(self.values)))]

    def _in_range(self, share: float) -> int | float | str:
        """Return the value at ``share``, from 0 to 1, of the range.

        Each integer covers half a step on both sides.
        """
        low, high = self.ends
        first, last = (low - 0.5, high + 0.5) if self.whole else (low, high)
        if self.parameter.log:
            drawn: float = first * (last / first) ** share
        else:
            drawn = first + (last - first) * share
        nearest = math.floor(drawn + 0.5) if self.whole else drawn
        # Rounding may exceed the ends.
        value = min(max(nearest, low), high)
        if self.parameter.unit is None:
            return value
        return f"{value!r} {self.parameter.unit}"

    @property
    def ends(self) -> tuple[float, float]:
        """The smallest and largest value of the range, as integers for an integer field."""
        low, high = self.parameter.low, self.parameter.high
        assert low is not None
        assert high is not None
        return (math.ceil(low), math.floor(high)) if self.whole else (low, high)


def axes(config: SweepConfig, document: Document) -> list[Axis]:
    """Return the varied fields of a file in its order.

    Raises ScenarioError for an integer field whose range contains no integer.
    """
    nodes = document.root.at(("sweep", "parameters"))
    assert nodes is not None
    pairs = ((path, parameter, nodes.child(path)) for path, parameter in config.parameters.items())
    varied = [
        Axis(path, parameter, node, _is_whole(path))
        for path, parameter, node in pairs
        if node is not None
    ]
    empty = [axis for axis in varied if axis.parameter.is_range and axis.ends[0] > axis.ends[1]]
    if empty:
        raise error(_no_whole_number(axis) for axis in empty)
    return varied


def _no_whole_number(axis: Axis) -> Problem:
    low, high = axis.parameter.low, axis.parameter.high
    text = f"must hold a whole number, but got {low:g} to {high:g}"
    return Problem(axis.node.place, ("sweep", "parameters", axis.path), text)


def combine(config: SweepConfig, varied: list[Axis]) -> tuple[int, Iterator[Values]]:
    """Return the number of points without ``run_cap``, and the values of the points up to it."""
    if config.method == "random":
        assert config.samples is not None
        draws = zip(*(axis.draws(config.seed) for axis in varied), strict=True)
        return config.samples, islice(draws, _cap(config, config.samples))
    values = [axis.values for axis in varied]
    total = len(values[0]) if config.method == "zip" else math.prod(map(len, values))
    combinations = zip(*values, strict=True) if config.method == "zip" else product(*values)
    return total, islice(combinations, _cap(config, total))


def _cap(config: SweepConfig, total: int) -> int:
    return total if config.run_cap is None else min(total, config.run_cap)


def _is_whole(path: str) -> bool:
    """Return whether the field at ``path`` is an integer, for any kind that has it."""
    shape = shape_of(Scenario)
    for part in split_path(path):
        shape = shape.below(part)
    return shape.options == (int,)


def split_path(path: str) -> list[str | int]:
    """Split ``disturbance.slow[0].factor`` into keys and indices."""
    parts = path.replace("[", ".").replace("]", "").split(".")
    return [int(part) if part.isdecimal() else part for part in parts]


def below(value: object, part: str | int) -> object:
    """Return the value under a key or index of a model's value; ``...`` if there is nothing.

    None may be a value.
    """
    if isinstance(value, BaseModel):
        names = {field.alias or name: name for name, field in type(value).model_fields.items()}
        return getattr(value, names.get(str(part), ""), ...)
    if isinstance(value, dict):
        return value.get(part, ...)
    if isinstance(value, (list, tuple)) and isinstance(part, int) and part < len(value):
        return value[part]
    return ...


def line_about(error: str, path: str, places: Iterable[object]) -> str | None:
    """Return the line of an error about the value at ``path``, given in one of ``places``.

    Lines about other places are of values that conflict with it.
    """
    starts = tuple(f"{place}: {path}{end}" for place in places for end in (":", ".", "["))
    return next((line for line in error.splitlines() if line.startswith(starts)), None)
