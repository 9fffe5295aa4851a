"""Fits the constants of transformers on the public table of language models.

Writes ``dpsim/workload/transformers.yaml``, with standard errors, and what the same fit gives
without each model and without each source, by which ``dpsim validate reference llm`` predicts rows
that the constants saw. What a row's network leaves exposed depends on the constants a little: the
fit is made twice. Run ``python -m tools.refits.transformer_refit`` after a change of models, of the
network's models or of the table.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import dpsim.workload
import validate.published.llm
from dpsim.base.arrays import FloatArray
from dpsim.base.terminal import write_whole
from tools.refits.transformer_fit import fit, fitted_rows, works_of
from tools.refits.transformer_work import RowWork
from tools.refits.yaml_files import rounded, yaml_text
from validate.published.llm import SETTINGS, TABLE, Constants, group_of
from validate.published.tables import constants_file, packaged_rows

CONSTANTS = Path(dpsim.workload.__path__[0]) / "transformers.yaml"
LEFT_OUT = Path(validate.published.llm.__path__[0]) / "left_out.json"
HEADER = (
    "# Written by `python -m tools.refits.transformer_refit`: what it is, "
    "dpsim/workload/transformer_times.py.\n"
    "# SI units; error: relative standard error of the fit, with its priors.\n"
)
_ROUNDS = 2
_FIXED = 1e-5  # relative errors of constants that priors hold where they are


def content(found: Constants) -> dict[str, Any]:
    """What the file holds: every constant with its value, error, unit and meaning."""
    settings = constants_file(SETTINGS)
    parts = settings["priors"]["parts"]
    fixed = settings["priors"]["fixed"]
    shown: dict[str, Any] = {}
    for part, members in found.values.items():
        shown[part] = {}
        for member, values in members.items():
            errors, constants = found.errors[part][member], {}
            for name, value in values.items():
                constants[name] = {
                    "value": rounded(value, 5),
                    "error": rounded(errors[name], 2),
                    "unit": parts[part][name]["unit"],
                    "meaning": parts[part][name]["meaning"],
                }
            shown[part][member] = constants

    # What is assumed stands beside what was fitted, where the simulator reads it.
    shown["shared"] = {**shown["shared"]["every"], "clock_power": fixed["clock_power"]}
    for generation, entry in fixed["watts"].items():
        shown["generations"][generation]["watts"] = entry
    for execution in shown["execution"].values():
        execution["launch"] = fixed["launch"]
    # As in the fit, which takes graphs for compiled ones.
    shown["execution"]["graph"] = shown["execution"]["compile"]
    # What others are measured against is 1 there by definition, and says nothing.
    for part in ("kernels", "unfused"):
        for year, constants in shown[part].items():
            told = {name: one for name, one in constants.items() if one["error"] > _FIXED}
            shown[part][year] = told
    return {**shown, "extrapolated": settings["extrapolated"]}


def left_out(
    groups: Sequence[str], rows: Sequence[RowWork], measured: FloatArray, within: Sequence[Any]
) -> dict[str, Any]:
    """The constants without each group of rows."""
    found: dict[str, Any] = {}
    for group in sorted(set(groups)):
        kept = [index for index, members in enumerate(within) if group not in members]
        without = fit([rows[index] for index in kept], measured[kept])
        found[group] = _rounded(without.values)
    return found


def _rounded(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _rounded(value) if isinstance(value, Mapping) else rounded(value, 5)
        for name, value in values.items()
    }


def write() -> None:
    """Write both files."""
    rows = fitted_rows(packaged_rows(TABLE))
    measured = np.array([row.measured for row in rows], dtype=float)
    # What a network leaves exposed is simulated by the constants so far: by shipped ones at first.
    found: Constants | None = None
    for _ in range(_ROUNDS):
        works = works_of(rows, found)
        found = fit(works, measured)
    assert found is not None
    write_whole(CONSTANTS, yaml_text(HEADER, content(found)))
    groups = [group_of(step.row) for step in rows]
    members = [
        (f"model {step.row.text('model')}", f"source {step.row.text('source')}") for step in rows
    ]
    without = left_out(groups, works, measured, members)
    LEFT_OUT.write_text(json.dumps(without, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    write()
