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

from dpsim.hardware import CalibrationProfile, Gpu, Parameter, Residuals
from dpsim.workload import TransformerEfficiency
from validate.published.llm.constants import TABLE, Constants
from validate.published.tables import Row, file_name, packaged_rows

CONFIGURATION = (
    "source", "framework", "note", "model", "params", "gpu", "gpus", "seq_len", "precision",
    "sharding", "shard_group", "act_ckpt", "compiled", "micro_batch", "grad_accum",
)  # fmt: skip
_NUMBERS = [each.name for each in fields(TransformerEfficiency) if each.name != "measured_on"]
_NEWEST = "2024"  # kernels where a row does not tell their year
_NOT_KEPT = Residuals(
    counted_on="held-out rows", n=0, median_ape=0, mean_ape=0, p95_ape=0, worst_ape=0, worst_bytes=0
)


def group_of(row: Row) -> str:
    """What is left out of the fit that predicts a row which it would have seen."""
    source, year = row.text("source"), row.number("year") or 0
    recent = "MosaicML" in source and year >= 2023 and row.text("precision") == "bf16"
    return f"model {row.text('model')}" if recent else f"source {source}"


@cache
def shipped_without() -> Mapping[str, Constants]:
    """The shipped constants without each model and each source, as the refit has written them."""
    text = files("validate.published.llm").joinpath("left_out.json").read_text(encoding="utf-8")
    return {group: Constants(values, {}) for group, values in json.loads(text).items()}


def is_seen(row: Row) -> bool:
    """Whether the public table, on which the shipped constants are fitted, has the same row."""
    return row.key(CONFIGURATION) in _public()


@cache
def _public() -> frozenset[tuple[str, ...]]:
    return frozenset(row.key(CONFIGURATION) for row in packaged_rows(TABLE))


def profile_without(
    row: Row, gpu: Gpu, execution: str, kernels: str | None
) -> tuple[str, str] | None:
    """The name and the text of the profile by which a row is predicted that constants saw.

    None where they did not see it, or the fit had no row of its group.
    """
    group, year = group_of(row), kernels or _NEWEST
    if not is_seen(row) or group not in shipped_without():
        return None
    found = shipped_without()[group].efficiency(gpu.architecture, execution, year)
    profile = CalibrationProfile(
        name=f"transformers without {group}",
        kind="compute",
        transformer={name: Parameter(value=getattr(found, name), unit="1") for name in _NUMBERS},
        residuals=_NOT_KEPT,
    )
    name = file_name(f"without {group} {found.measured_on} {execution} {year}")
    return f"{name}.json", profile.to_json()
