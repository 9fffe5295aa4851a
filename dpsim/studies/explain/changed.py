"""Change values of a scenario without its file, as ``--set`` does, on the validated model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from dpsim.base.config import first_problem
from dpsim.base.errors import DpsimError
from dpsim.scenario import Scenario

M = TypeVar("M", bound=BaseModel)

Values = Mapping[str, Any]


def changed(scenario: Scenario, values: Values) -> Scenario:
    """Return ``scenario`` with ``values`` (plain JSON, by path) set.

    Raises DpsimError if the result is not a valid scenario.
    """
    for path, value in values.items():
        way = path.replace("[", ".").replace("]", "").split(".")
        try:
            scenario = _put(scenario, way, value)
        except ValidationError as error:
            raise DpsimError(f"{path}: {first_problem(error).rule}") from None
    return scenario


def as_options(values: Values) -> list[str]:
    """Return ``values`` as arguments of ``--set``."""
    return [f"{path}={json.dumps(value)}" for path, value in values.items()]


def _put(model: M, way: list[str], value: Any) -> M:
    name, *rest = way
    # Validated from the given values, not copied with an update, so that the rules between fields
    # hold for the new value too.
    content = _content(model)
    content[name] = _at(getattr(model, name), rest, value)
    if "testbed" in content:
        content.pop("cluster")  # derived from the testbed
    return type(model).model_validate(content)


def _below(part: Any, way: list[str], value: Any) -> Any:
    """Set the value in ``part`` of a model, which is a model or a tuple of models."""
    if isinstance(part, BaseModel):
        return _put(part, way, value)
    place, *rest = way
    return tuple(
        _at(each, rest, value) if number == int(place) else each for number, each in enumerate(part)
    )


def _at(part: Any, way: list[str], value: Any) -> Any:
    return _below(part, way, value) if way else value


def _content(model: BaseModel) -> dict[str, Any]:
    """Return the values that made ``model``; nested models unchanged, quantities as text."""
    plain = model.model_dump(
        mode="json",
        exclude_unset=True,
        exclude={name for name in model.model_fields_set if _is_whole(getattr(model, name))},
    )
    return {
        # Nested models are passed on unchanged: they were validated when they were made, and only
        # those on the path to the value are made anew.
        **plain,
        **{
            name: getattr(model, name)
            for name in model.model_fields_set
            if _is_whole(getattr(model, name))
        },
    }


def _is_whole(value: Any) -> bool:
    """Return whether a value is a model or a tuple of models."""
    return isinstance(value, BaseModel) or (
        isinstance(value, tuple) and any(isinstance(each, BaseModel) for each in value)
    )
