"""Change values of a scenario without its file, as ``--set`` does, on the validated model."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ValidationError

from dpsim.base.config import first_problem
from dpsim.base.errors import DpsimError
from dpsim.scenario import Scenario

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


def _put(part: Any, way: list[str], value: Any) -> Any:
    """Return a part of a scenario, a model or a tuple of models, with the value set."""
    if not way:
        return value
    name, *rest = way
    if isinstance(part, tuple):
        number = int(name)
        return (*part[:number], _put(part[number], rest, value), *part[number + 1 :])
    # Nested models are passed on unchanged, since they were validated when they were made. The
    # others are validated anew, quantities as text, so that the rules between fields hold for the
    # new value too.
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
