"""Constants that did not see a row, for rows of the public table that the shipped ones saw.

``left_out.json`` has the constants of the same fit without each model and each source. They stand
in a profile beside the row's scenario, so that ``dpsim run`` computes by them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import fields
from functools import cache
from importlib.resources import files

from dpsim.hardware import CalibrationProfile, Parameter, Residuals
from dpsim.workload import TransformerEfficiency
from validate.published.llm.constants import Constants
from validate.published.llm.rows import LlmRow
from validate.published.tables import file_name

_NUMBERS = [each.name for each in fields(TransformerEfficiency) if each.name != "measured_on"]
_NOT_KEPT = Residuals(
    counted_on="held-out rows", n=0, median_ape=0, mean_ape=0, p95_ape=0, worst_ape=0, worst_bytes=0
)


def group_of(row: LlmRow) -> str:
    """What is left out of the fit that predicts a row which it would have seen."""
    recent = "MosaicML" in row.source and row.year >= 2023 and row.precision == "bf16"
    return f"model {row.model}" if recent else f"source {row.source}"


@cache
def shipped_without() -> Mapping[str, Constants]:
    """The shipped constants without each model and each source, as the refit has written them."""
    text = files("validate.published.llm").joinpath("left_out.json").read_text(encoding="utf-8")
    return {group: Constants(values, {}) for group, values in json.loads(text).items()}


def profile_without(row: LlmRow, execution: str, kernels: str) -> tuple[str, str] | None:
    """The name and the text of the profile by which a row is predicted that constants saw.

    None where they did not see it, or the fit had no row of its group.
    """
    group = group_of(row)
    if not row.is_seen or group not in shipped_without():
        return None
    found = shipped_without()[group].efficiency(row.gpu.architecture, execution, kernels)
    profile = CalibrationProfile(
        name=f"transformers without {group}",
        kind="compute",
        transformer={name: Parameter(value=getattr(found, name), unit="1") for name in _NUMBERS},
        residuals=_NOT_KEPT,
    )
    name = file_name(f"without {group} {found.measured_on} {execution} {kernels}")
    return f"{name}.json", profile.to_json()
