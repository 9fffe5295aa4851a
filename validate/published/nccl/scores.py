"""Scored rows, and summaries of errors over groups of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpsim.base.shipped import shipped_json
from dpsim.base.uncertainty import ModelError, PredictionInterval, error_summary
from dpsim.network import machine_error
from dpsim.network.libraries.nccl import NcclMachine, family_of
from validate.published.nccl.regimes import Predicted
from validate.published.nccl.table import Case

MIB = 2**20
CALIBRATED_FILE = "calibrated_residuals.json"


@dataclass(frozen=True)
class Score:
    """One row of a table beside its prediction; ``constants`` says how its constants were fitted.

    ``neighbours`` are the measured machines whose residuals corrected the prediction.
    ``is_calibrated``: whether other sizes of its curve are known.
    """

    case: Case
    line: int
    nbytes: float
    predicted: float
    measured: float
    constants: str
    counts: bool
    neighbours: tuple[str, ...] = ()
    is_calibrated: bool = False

    @property
    def ape(self) -> float:
        """The absolute percentage error, as a fraction."""
        return abs(self.predicted / self.measured - 1)

    @cached_property
    def interval(self) -> PredictionInterval:
        """The interval for the measured time, from the model's residuals on such machines."""
        case = self.case
        if self.is_calibrated:
            model_error = calibrated_error(case.machine.nodes == 1, self.nbytes >= MIB)
            return model_error.around(self.predicted)
        model_error = machine_error(case.machine, case.op, self.nbytes, self.predicted)
        return model_error.around(self.predicted)

    @property
    def is_inside(self) -> bool:
        """Whether the measured time lies in the interval."""
        return self.interval.low <= self.measured <= self.interval.high

    @property
    def reason(self) -> str | None:
        """The reason why the row does not count; None if it does, or if it was fitted on."""
        quality = self.case.identity.get("quality", "ok")
        return None if quality == "ok" else f"quality: {quality}"

    def to_json(self) -> dict[str, Any]:
        """Return the columns that identify the row, with sizes in bytes and times in us."""
        interval = self.interval
        return {
            **self.case.identity,
            "line": self.line,
            "bytes": int(self.nbytes),
            "predicted_us": self.predicted * 1e6,
            "measured_us": self.measured * 1e6,
            "low_us": interval.low * 1e6,
            "high_us": interval.high * 1e6,
            "extrapolated": list(interval.extrapolated),
            "ape": self.ape,
            "constants": self.constants,
            "nearest_machines": list(self.neighbours),
            **({} if self.reason is None else {"reason": self.reason}),
        }


def scored(predicted: Predicted, constants: str) -> list[Score]:
    """Return one score for each row of the table, in the order of its lines."""
    case = predicted.case
    # A curve has each size once; the table may have several rows of a size.
    at = {
        size: (time, use)
        for size, time, use in zip(case.nbytes, predicted.seconds, predicted.counts, strict=True)
    }
    return [
        Score(
            case,
            row.line,
            row.nbytes,
            float(at[row.nbytes][0]),
            row.seconds,
            constants,
            bool(at[row.nbytes][1]),
            predicted.neighbours,
            predicted.is_calibrated,
        )
        for row in case.rows
    ]


def transport_group(machine: NcclMachine, op: str = "all_reduce") -> str:
    """Return the group whose target applies to the error of a machine's operation."""
    if machine.nodes > 1 and op != "all_reduce":
        return "multi-node other collectives"
    return family_of(machine, "all_reduce")


def summary(scores: Sequence[Score]) -> dict[str, float | int]:
    """Summarise errors over rows, and average each machine's mean over machines.

    n; median, mean, 95th percentile and worst.
    """
    return {
        **error_summary([score.ape for score in scores]),
        "machines": len({score.case.machine_name for score in scores}),
        "mean_over_machines": mean_over_machines(scores),
        "coverage": float(np.mean([score.is_inside for score in scores])),
        "median_width": float(np.median([score.interval.width for score in scores])),
    }


def mean_over_machines(scores: Sequence[Score]) -> float:
    """Return the mean over machines of each one's mean absolute percentage error (fraction)."""
    machines: dict[str, list[float]] = {}
    for score in scores:
        machines.setdefault(score.case.machine_name, []).append(score.ape)
    return float(np.mean([np.mean(machines[name]) for name in sorted(machines)]))


def summarise(scores: Sequence[Score]) -> dict[str, dict[str, float | int]]:
    """Return `summary` of every group that has rows.

    Nodes, transports, each of these from 1 MiB up, machines and cases.
    """
    groups: dict[str, list[Score]] = {}
    for score in sorted(scores, key=lambda score: _group(score.case)):
        machine = score.case.machine
        heading = "single-node" if machine.nodes == 1 else "multi-node"
        transports = [] if machine.nodes == 1 else [f"transport {machine.transport}"]
        for name in (heading, _group(score.case), *transports):
            groups.setdefault(name, []).append(score)
            if score.nbytes >= MIB:
                groups.setdefault(f"{name}, from 1 MiB", []).append(score)
        if score.nbytes >= MIB:
            groups.setdefault("from 1 MiB", []).append(score)
    order = sorted(groups, key=lambda name: (name.startswith("transport"), name))
    found = {name: summary(groups[name]) for name in order}
    return found | _by("machine", scores) | _by("case", scores)


def _group(case: Case) -> str:
    return transport_group(case.machine, case.op)


def _by(what: str, scores: Sequence[Score]) -> dict[str, dict[str, float | int]]:
    parts: dict[str, list[Score]] = {}
    for score in scores:
        case = score.case
        name = case.machine_name if what == "machine" else case.identity.get("case_id", case.name)
        parts.setdefault(f"{what} {name}", []).append(score)
    return {name: summary(part) for name, part in parts.items()}


def calibrated_error(is_one_node: bool, large: bool) -> ModelError:
    """Errors at the held-out sizes after calibration, on machines left out of the fit.

    ``large``: of sizes from 1 MiB on.
    """
    content = shipped_json("validate.published.nccl", CALIBRATED_FILE)
    error = next(
        each
        for each in content["families"]
        if (each["is_one_node"], each["from_1MiB"]) == (is_one_node, large)
    )
    basis = f"communication: {error['machines']} machines calibrated by every fourth of their sizes"
    return ModelError(basis, error["spread"], source="communication")
