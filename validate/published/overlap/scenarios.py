"""Rows of scaling.csv that compare overlap policies, parameter servers and gossip.

The compute time is known: the row states it beside its step, or its case has a row on fewer GPUs.
The scenario's compute times are scaled to it, so that the row tests only the exchange of gradients.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dpsim.engine import prepare, scale_to
from validate.published.scaling import SETTINGS, read
from validate.published.tables import (
    NotPredictedError,
    PublishedStep,
    Read,
    Row,
    constants_file,
    gathered,
    scenario_of_row,
)

# The authors' names of the policies, by the overlap of a row's strategy.
POLICIES = {"mg-wfbp": "MG-WFBP", "wfbp": "WFBP", "sequential": "SyncEASGD"}
_COMPUTING = re.compile(r"\bcomput\w*(?: part)? ([\d.]+) ms")


def reader(rows: Sequence[Row]) -> Read:
    """Return the function that reads a row beside the other rows of its case."""
    cases = gathered(rows, ("case_id",))

    def read_one(row: Row) -> PublishedStep:
        usual: int = constants_file(SETTINGS)["usual_batch"]
        step = read(row, usual_batch=usual)
        name = policy_of(step) or step.scenario["strategy"].get("aggregation", {}).get("kind")
        if name in (None, "allreduce"):
            raise NotPredictedError("neither an overlap policy, nor a parameter server, nor gossip")
        scale = _scale(step, cases[row.key(("case_id",))])
        if scale is None and name != "gossip":
            raise NotPredictedError("computing not stated, and no row of the case on fewer GPUs")
        known = step if scale is None else _scaled(step, scale)
        known = replace(known, groups=(name, f"{name}, {row.text('model')}"))
        if name not in POLICIES.values():
            return known
        # The quality of these rows is about machines that were inferred, not about their times.
        groups = ("overlap policies", *known.groups)
        return replace(known, groups=groups, status="counted", reason=None)

    return read_one


def policy_of(step: PublishedStep) -> str | None:
    """Return the overlap policy that a row states; None if it states none."""
    said = step.row.text("system").casefold()
    kind = step.scenario["strategy"].get("overlap", {}).get("kind")
    return POLICIES.get(kind) if "wfbp" in said or "synceasgd" in said else None


def setting_of(step: PublishedStep) -> tuple[str, ...]:
    """Return the setting that rows of several policies have in common."""
    return step.row.key(("gpu", "model", "network", "precision", "gpus", "per_gpu_batch"))


def _scale(step: PublishedStep, case: Sequence[Row]) -> float | None:
    """Return the factor on compute times by the row's notes, or by the case's smallest run.

    None if neither is available.
    """
    stated = _COMPUTING.search(step.row.text("notes"))
    if stated:
        return float(stated[1]) * 1e-3 / _computed(step)
    smaller = [row for row in case if (row.number("gpus") or step.gpus) < step.gpus]
    if not smaller:
        return None
    base = read(min(smaller, key=lambda row: row.stated("gpus")))
    return scale_to(prepare(scenario_of_row(base.scenario)), base.measured)


def _computed(step: PublishedStep) -> float:
    """Return the seconds of a step on one such GPU by itself."""
    cluster = step.scenario["cluster"]
    alone = {"node": cluster["node"], "gpu": cluster["gpu"], "gpus_per_node": 1}
    scenario: dict[str, Any] = {**step.scenario, "cluster": alone, "strategy": {}}
    return float(prepare(scenario_of_row(scenario)).positions[-1].max())


def _scaled(step: PublishedStep, scale: float) -> PublishedStep:
    calibration = {"compute_scale": scale, "source": "computing of the row or its case"}
    return replace(
        step,
        scenario={**step.scenario, "calibration": calibration},
        constants="shipped, compute scaled to what the row or its case states",
    )
