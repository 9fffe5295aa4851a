"""Scenarios that rows of published tables describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError

from dpsim.base.config import first_problem
from dpsim.base.errors import DpsimError
from dpsim.scenario import Scenario


def scenario_of_row(content: Mapping[str, Any]) -> Scenario:
    """The scenario with these values, which a row states.

    Raises DpsimError, with the field, where there is none such.
    """
    try:
        return Scenario.model_validate(content)
    except ValidationError as error:
        raise DpsimError(f"no scenario says this row: {first_problem(error)}") from None
