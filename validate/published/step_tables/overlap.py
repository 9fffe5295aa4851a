"""Rows of scaling.csv that compare overlap policies, parameter servers and gossip.

The compute time is known: the row states it beside its step, or its case has a row on fewer GPUs.
The scenario's compute times are scaled to it, so that the row tests only the exchange of gradients.
Where several policies were measured in one setting, they are ranked.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dpsim.engine import prepare, scale_to
from validate.published.step_tables.scaling import IDENTITY, REQUIRED, SETTINGS, read
from validate.published.tables.csv_file import NotPredictedError, Row, group_rows
from validate.published.tables.packaged import constants_file
from validate.published.tables.published_step import PublishedStep, Read, StepTable
from validate.published.tables.scenario_files import scenario_of_row
from validate.published.tables.step_scores import StepRow

# The authors' names of the policies, by the overlap of a row's strategy.
POLICIES = {"mg-wfbp": "MG-WFBP", "wfbp": "WFBP", "sequential": "SyncEASGD"}
_TIE_FRACTION = 0.02  # measured steps closer than this are a tie
_COMPUTING = re.compile(r"\bcomput\w*(?: part)? ([\d.]+) ms")


def reader(rows: Sequence[Row]) -> Read:
    """Return the function that reads a row beside the other rows of its case."""
    cases = group_rows(rows, ("case_id",))

    def read_one(row: Row) -> PublishedStep:
        usual: int = constants_file(SETTINGS)["usual_batch"]
        step = read(row, usual_batch=usual)
        name = policy_of(step) or step.scenario["strategy"].get("aggregation", {}).get("kind")
        if name in (None, "allreduce"):
            raise NotPredictedError("neither an overlap policy, nor a parameter server, nor gossip")
        scale = _scale(step, cases[row.key(("case_id",))])
        if scale is None and name != "gossip":
            raise NotPredictedError("computing not stated, and no row of the case on fewer GPUs")
        scaled = step if scale is None else _scale_compute(step, scale)
        scaled = replace(scaled, groups=(name, f"{name}, {row.text('model')}"))
        if name not in POLICIES.values():
            return scaled
        # The quality of these rows is about machines that were inferred, not about their times.
        groups = ("overlap policies", *scaled.groups)
        return replace(scaled, groups=groups, status="counted", reason=None)

    return read_one


def policy_of(step: PublishedStep) -> str | None:
    """Return the overlap policy that a row states; None if it states none."""
    text = step.row.text("system").casefold()
    kind = step.scenario["strategy"].get("overlap", {}).get("kind")
    return POLICIES.get(kind) if "wfbp" in text or "synceasgd" in text else None


def setting_of(step: PublishedStep) -> tuple[str, ...]:
    """Return the setting that rows of several policies have in common."""
    return step.row.key(("gpu", "model", "network", "precision", "gpus", "per_gpu_batch"))


def _scale(step: PublishedStep, case: Sequence[Row]) -> float | None:
    """Return the factor on compute times by the row's notes, or by the case's smallest run.

    None if neither is available.
    """
    stated = _COMPUTING.search(step.row.text("notes"))
    if stated:
        return float(stated[1]) * 1e-3 / _compute_s(step)
    smaller = [row for row in case if (row.number("gpus") or step.gpus) < step.gpus]
    if not smaller:
        return None
    base = read(min(smaller, key=lambda row: row.stated("gpus")))
    return scale_to(prepare(scenario_of_row(base.scenario)), base.measured)


def _compute_s(step: PublishedStep) -> float:
    """Return the seconds of a step on one such GPU by itself."""
    cluster = step.scenario["cluster"]
    one_gpu = {"node": cluster["node"], "gpu": cluster["gpu"], "gpus_per_node": 1}
    scenario: dict[str, Any] = {**step.scenario, "cluster": one_gpu, "strategy": {}}
    return float(prepare(scenario_of_row(scenario)).positions[-1].max())


def _scale_compute(step: PublishedStep, scale: float) -> PublishedStep:
    calibration = {"compute_scale": scale, "source": "computing of the row or its case"}
    return replace(
        step,
        scenario={**step.scenario, "calibration": calibration},
        constants="shipped, compute scaled to what the row or its case states",
    )


@dataclass(frozen=True, slots=True)
class Order:
    """One setting in which several policies were measured.

    The measured and predicted step of each policy (s).
    """

    setting: tuple[str, ...]
    measured: dict[str, float]
    predicted: dict[str, float]

    @property
    def right(self) -> bool:
        """Whether the prediction ranks all policies as measured."""
        return sorted(self.measured, key=self.measured.__getitem__) == sorted(
            self.predicted, key=self.predicted.__getitem__
        )

    def pairs(self, apart: float = 0.0) -> list[bool]:
        """Return, for each pair of policies, whether the prediction ranks it as measured.

        Only pairs whose measured steps differ by more than ``apart``.
        """
        # The slower policy comes first, so that each pair counts once and ties do not count.
        m, p = self.measured, self.predicted
        twos = [(one, other) for one in m for other in m if m[one] > m[other] * (1 + apart)]
        return [p[one] > p[other] for one, other in twos]

    def to_json(self) -> dict[str, Any]:
        """Return the order as JSON, with times in ms."""
        return {
            "setting": list(self.setting),
            "measured_ms": {name: 1e3 * seconds for name, seconds in self.measured.items()},
            "predicted_ms": {name: 1e3 * seconds for name, seconds in self.predicted.items()},
            "right": self.right,
        }


def orders(rows: Sequence[StepRow]) -> list[Order]:
    """Return the settings with several policies."""
    settings: dict[tuple[str, ...], Order] = {}
    for row in rows:
        policy, setting = policy_of(row.step), setting_of(row.step)
        if policy is not None:
            order = settings.setdefault(setting, Order(setting, {}, {}))
            order.measured[policy], order.predicted[policy] = row.measured, row.predicted
    return [order for order in settings.values() if len(order.measured) > 1]


def compare_orders(rows: Sequence[StepRow]) -> tuple[dict[str, Any], list[str]]:
    """Return the JSON's ``orders``, and how often policies rank as measured, in words."""
    compared = orders(rows)
    if not compared:
        return {"orders": []}, []
    pairs = [right for order in compared for right in order.pairs()]
    clear = [right for order in compared for right in order.pairs(_TIE_FRACTION)]
    text = (
        f"policies rank as measured in {sum(order.right for order in compared)} of {len(compared)} "
        f"settings, {sum(pairs)} of {len(pairs)} pairs, {sum(clear)} of {len(clear)} pairs more "
        f"than {_TIE_FRACTION:.0%} apart"
    )
    return {"orders": [order.to_json() for order in compared]}, [text]


STEP_TABLE = StepTable(REQUIRED, IDENTITY, reader, beside=compare_orders)
