"""A knob: a property of a scenario that can be changed.

It states its possible changes, and the part of a step on which it acts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dpsim.engine import PartName
from dpsim.scenario import Scenario
from dpsim.studies.explain.changed import Values


@dataclass(frozen=True, slots=True)
class Change:
    """One way to turn a knob: in words, and as values by path.

    ``factor`` multiplies the knob's number; None if it is not a number.
    """

    words: str
    values: Values = field(default_factory=dict[str, Any])
    factor: float | None = None


# The ways to turn a knob, or the reason, in words, why there is nothing to turn.
Options = tuple[Change, ...] | str


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob: its ``title``, the ``part`` of a step on which it acts, and its ``options``.

    ``options`` returns the ways to turn it in a scenario.
    """

    title: str
    part: PartName
    options: Callable[[Scenario], Options]
