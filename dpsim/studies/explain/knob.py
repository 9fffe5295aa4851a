"""A knob: a property of a scenario that can be changed, and the part of a step on which it acts.

A change is made on the validated scenario without its file, like ``--set``.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from dpsim.base.config import first_problem
from dpsim.base.errors import DpsimError
from dpsim.engine import PartName
from dpsim.scenario import Scenario

Values = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Change:
    """An option of a knob: in words, and as values by path.

    ``factor`` multiplies the knob's number; None if it is not a number.
    """

    words: str
    values: Values = field(default_factory=dict[str, Any])
    factor: float | None = None


# The options of a knob, or the reason, in words, why there are none.
Options = tuple[Change, ...] | str


@dataclass(frozen=True, slots=True)
class Knob:
    """A knob: its ``title``, the ``part`` of a step on which it acts, and its ``options``.

    ``options`` returns its options in a scenario.
    """

    title: str
    part: PartName
    options: Callable[[Scenario], Options]


def changed(scenario: Scenario, values: Values) -> Scenario:
    """Return ``scenario`` with ``values`` (plain JSON, by path) set.

    Raises DpsimError if the result is not a valid scenario.
    """
    for path, value in values.items():
        path_parts = path.replace("[", ".").replace("]", "").split(".")
        try:
            scenario = _put(scenario, path_parts, value)
        except ValidationError as error:
            raise DpsimError(f"{path}: {first_problem(error)._replace(where='')}") from None
    return scenario


def as_options(values: Values) -> list[str]:
    """Return ``values`` as arguments of ``--set``."""
    return [f"{path}={json.dumps(value)}" for path, value in values.items()]


def _put(part: Any, path_parts: list[str], value: Any) -> Any:
    """Return a part of a scenario, a model or tuple of models, with the value set."""
    if not path_parts:
        return value
    name, *rest = path_parts
    if isinstance(part, tuple):
        number = int(name)
        return (*part[:number], _put(part[number], rest, value), *part[number + 1 :])
    # Nested models stay as validated. All other fields are validated again, quantities as text, so
    # that the rules between fields also hold for the new value.
    given = {each: getattr(part, each) for each in part.model_fields_set}
    models = {each: held for each, held in given.items() if _holds_models(held)}
    content = {**part.model_dump(mode="json", exclude_unset=True, exclude={*models}), **models}
    content[name] = _put(getattr(part, name), rest, value)
    if "testbed" in content:
        content.pop("cluster")  # derived from the testbed
    return type(part).model_validate(content)


def _holds_models(value: Any) -> bool:
    """Return whether a value is a model or a tuple of models."""
    values = value if isinstance(value, tuple) else (value,)
    return any(isinstance(each, BaseModel) for each in values)
