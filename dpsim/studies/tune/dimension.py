"""A field that is searched over, its values, and the kinds for which it exists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.scenario import Override, Plain, Scenario, Shape, fields_of, shape_of
from dpsim.studies.sweep import below, split_path
from dpsim.studies.variants import parse_vary


@dataclass(frozen=True, slots=True)
class Dimension:
    """The field at ``path`` with its ``values``.

    ``switch`` is the path that chooses the kind of its part of the scenario; the field exists for
    ``kinds``, or for any kind if that is None. ``scenario_kind`` is the scenario's kind.
    ``asked``: the user requested the field.
    """

    path: str
    values: tuple[Override, ...]
    switch: str | None = None
    kinds: frozenset[str] | None = None
    scenario_kind: str | None = None
    asked: bool = False

    @property
    def plain(self) -> tuple[Plain, ...]:
        """The values as in a file."""
        return tuple(value.value.plain() for value in self.values)

    @property
    def order(self) -> tuple[int, bool]:
        """A sort key that places a field after the fields that decide whether it applies."""
        return (len(split_path(self.path)), not _is_switch(self.path))

    def applies(self, chosen: Mapping[str, Plain]) -> bool:
        """Return whether the field applies with the values ``chosen`` by path."""
        if self.kinds is None or self.switch is None:
            return True
        # The kind is chosen directly, or with the whole part, or is the file's.
        part, _, key = self.switch.rpartition(".")
        whole = chosen.get(part)
        inside = whole.get(key) if isinstance(whole, dict) else self.scenario_kind
        return str(chosen.get(self.switch, inside)) in self.kinds

    def decides(self, other: Dimension) -> bool:
        """Return whether ``other`` applies only with some of these values."""
        if other.switch is None:
            return False
        part, _, _ = other.switch.rpartition(".")
        return self.path in (other.switch, part)

    def with_values(self, values: Iterable[Override]) -> Dimension:
        """Return the dimension with other values."""
        return replace(self, values=tuple(values))


def parse_over(text: str) -> tuple[str, tuple[Override, ...]]:
    """Parse ``key=a,b,c`` of ``--over`` into the key and its YAML values. Raises DpsimError."""
    path, values = parse_vary(text, "--over")
    if len(set(values)) < len(values):
        raise DpsimError(
            f"--over {path}: must have values of which no two are alike, but got "
            f"{', '.join(values)}"
        )
    return path, tuple(Override.parse(f"{path}={value}", "--over") for value in values)


def defaults(path: str, values: Sequence[object]) -> tuple[Override, ...]:
    """Return default values, which the user did not type."""
    return tuple(Override.of(path, value, f"{path}={value}") for value in dict.fromkeys(values))


def dimension(
    path: str, values: tuple[Override, ...], scenario: Scenario, *, asked: bool = False
) -> Dimension:
    """Return the dimension of ``scenario``'s field at ``path``."""
    *way, last = split_path(path)
    shape: Shape = shape_of(Scenario)
    part: Any = scenario
    for step in way:
        shape, part = shape.below(step), below(part, step)
    union = shape.union()
    # Fields of a part with a single kind always apply, and so does the choice of the kind.
    if union is None or union.discriminator in (None, last):
        return Dimension(path, values, asked=asked)
    switch = f"{path.rpartition('.')[0]}.{union.discriminator}"
    return Dimension(
        path,
        values,
        switch,
        _knowing(union, str(last)),
        getattr(part, str(union.discriminator), None),
        asked,
    )


def _knowing(union: Shape, field: str) -> frozenset[str]:
    """Return the kinds that have such a field."""
    return frozenset(kind for kind, model in union.kinds().items() if field in fields_of(model))


def _is_switch(path: str) -> bool:
    return path.rpartition(".")[2] in ("kind", "fabric")
