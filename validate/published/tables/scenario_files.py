"""Scenarios of rows with the files that they name, in a folder."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dpsim.base.config import first_problem
from dpsim.base.errors import DpsimError
from dpsim.base.terminal import write_whole
from dpsim.engine import memory_use
from dpsim.scenario import Scenario
from validate.published.tables.csv_file import NotPredictedError
from validate.published.tables.published_step import PublishedStep

# All steps are the same if nothing is random; a row may state other values.
_RUN = {"steps": 1, "warmup": 0, "allow_out_of_memory": True}
_LONGEST = 150  # characters of a file name: file systems allow that many with an extension


class ScenarioFolder:
    """A folder beside which scenarios are read; their files are written on demand.

    With ``keeps`` each scenario is written too, as ``ROW_ID.yaml``.
    """

    def __init__(self, path: Path, *, keeps: bool) -> None:
        self._path = path
        self._keeps = keeps
        self._written: dict[str, str] = {}

    def scenario(self, step: PublishedStep, content: Mapping[str, Any] | None = None) -> Scenario:
        """Return the scenario of a row, or another ``content`` beside its files.

        Raises NotPredictedError, with the field, if it is invalid.
        """
        for name, text in step.files.items():
            self.write(name, text)
        return scenario_of_row(_with_run(step.scenario if content is None else content), self._path)

    def fitting(self, step: PublishedStep) -> PublishedStep:
        """Return the row with the first of its checkpoints that fits the GPUs' memory."""
        candidate = step
        for checkpoint in step.checkpoints:
            workload = {**step.scenario["workload"], "checkpoint": checkpoint}
            candidate = replace(step, scenario={**step.scenario, "workload": workload})
            if memory_use(self.scenario(candidate)).fits:
                break
        return candidate

    def write(self, name: str, text: str) -> None:
        """Write a file that scenarios name, unless it was written before."""
        if self._written.get(name) != text:
            self._written[name] = text
            write_whole(self._path / name, text)

    def keep(self, step: PublishedStep, content: Mapping[str, Any]) -> None:
        """Write the scenario by which a row is predicted."""
        if self._keeps:
            write_whole(
                self._path / f"{file_name(step.row_id)}.yaml", yaml_text(_with_run(content))
            )

    def check_names(self, steps: Sequence[PublishedStep]) -> None:
        """Raise DpsimError if two rows would be written to one file."""
        lines: dict[str, int] = {}
        for step in steps if self._keeps else ():
            name = file_name(step.row_id)
            # Not all file systems distinguish upper and lower case.
            other = lines.setdefault(name.casefold(), step.row.line)
            if other != step.row.line:
                raise DpsimError(
                    f"row_id of line {step.row.line} must be another than that of line {other} "
                    f"where scenarios are written, but both give {name}.yaml"
                )


def scenario_of_row(content: Mapping[str, Any], folder: Path | None = None) -> Scenario:
    """Return the scenario with these values of a row, beside the files in ``folder``.

    Raises NotPredictedError, with the field, if it is invalid.
    """
    try:
        return Scenario.model_validate(content, context={"folder": str(folder or "")})
    except ValidationError as error:
        raise NotPredictedError(f"no scenario says this row: {first_problem(error)}") from None


def _with_run(content: Mapping[str, Any]) -> dict[str, Any]:
    return {**content, "run": {**_RUN, **content.get("run", {})}}


def file_name(row_id: str) -> str:
    """Return ``row_id`` as a file name: letters, digits, dots (not first), hyphens, underscores."""
    plain = re.sub(r"[^A-Za-z0-9._-]+", "-", row_id)[:_LONGEST].lstrip(".")
    return plain or "row"


def yaml_text(content: Mapping[str, Any]) -> str:
    """Return a scenario's file; numbers are written with all their digits."""
    from ruamel.yaml import YAML

    yaml, stream = YAML(), io.StringIO()
    yaml.width = 130
    yaml.dump(_plain(content), stream)
    return stream.getvalue()


def _plain(value: Any) -> Any:
    """Convert mappings to dictionaries and tuples to lists, which YAML writes without tags."""
    if isinstance(value, Mapping):
        return {key: _plain(each) for key, each in value.items()}
    return [_plain(each) for each in value] if isinstance(value, list | tuple) else value
