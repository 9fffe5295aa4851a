"""Scenarios that rows of published tables describe."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dpsim.base.config import first_problem
from dpsim.scenario import Scenario
from validate.published.tables.csv_file import NotPredictedError


def scenario_of_row(content: Mapping[str, Any], folder: Path | None = None) -> Scenario:
    """The scenario with these values, which a row states, beside the files in ``folder``.

    Raises NotPredictedError, with the field, where there is none such.
    """
    try:
        return Scenario.model_validate(content, context={"folder": str(folder or "")})
    except ValidationError as error:
        raise NotPredictedError(f"no scenario says this row: {first_problem(error)}") from None
