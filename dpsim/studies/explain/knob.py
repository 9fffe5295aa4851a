"""A knob: something about a scenario that can be turned.

It knows what to turn it to, and which part of a step it acts on.
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

    ``factor``: what multiplies the knob, None where it is no number.
    """

    words: str
    values: Values = field(default_factory=dict[str, Any])
    factor: float | None = None


# The ways to turn a knob; or, in words, why there is nothing to turn.
Options = tuple[Change, ...] | str


@dataclass(frozen=True, slots=True)
class Knob:
    """What can be turned: its ``title``, the ``part`` of a step it acts on, the ``options``.

    ``options`` gives the ways to turn it in a scenario.
    """

    title: str
    part: PartName
    options: Callable[[Scenario], Options]
