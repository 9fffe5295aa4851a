"""A calibration as a whole: the fit to measured runs, and what follows for a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from os import PathLike
from typing import Any

from dpsim.engine import prepare
from dpsim.hardware import CalibrationProfile
from dpsim.scenario import Scenario
from dpsim.studies.calibrate.exposed import exposed_seconds
from dpsim.studies.calibrate.fit import Fitted, MeasuredRun, fitted
from dpsim.studies.calibrate.next_runs import Proposed, measure_next
from dpsim.studies.calibrate.profile import profile_of

_NO_NODES = (
    "no run went over several nodes, so nothing is known of the network between them: measure two "
    "full nodes before you believe a prediction beyond one"
)
_HIGH = 0.07  # residuals above this: the form does not describe the cluster


@dataclass(frozen=True)
class Calibration:
    """The constants ``found`` from measured runs, for predictions of ``target`` and its like."""

    found: Fitted
    target: Scenario

    @cached_property
    def profile(self) -> CalibrationProfile:
        """The profile by which other runs are predicted."""
        return profile_of(self.found, self.target.name, self.target.profile)

    @cached_property
    def proposed(self) -> tuple[Proposed, ...]:
        """The runs to measure next."""
        return measure_next(self.found, self.target)

    @property
    def warnings(self) -> list[str]:
        """What the runs cannot tell, or do not fit."""
        found, said = self.found, []
        several = sum(part.nodes for part in self.target.cluster.parts) > 1
        if several and all(run.known.nodes == 1 for run in found.runs):
            said.append(_NO_NODES)
        rms = float((found.residuals**2).mean() ** 0.5)
        if rms > _HIGH:
            said.append(
                f"the runs are off by {rms:.0%} though they were fitted to: these constants do not "
                "describe all that differs on this cluster"
            )
        return said

    def to_json(self, written: str | PathLike[str] | None = None) -> dict[str, Any]:
        """The JSON of `dpsim calibrate`; ``written`` is the file that the profile went to."""
        return {
            "schema_version": 1,
            "kind": "calibrate",
            "parameters": [self._parameter(index) for index in range(len(self.found.free))],
            "rows": [self._row(index) for index in range(len(self.found.runs))],
            "left_out": self._left_out(),
            "measure_next": [each.to_json() for each in self.proposed],
            "warnings": self.warnings,
            "profile": None if written is None else str(written),
        }

    def _parameter(self, index: int) -> dict[str, Any]:
        found, prior = self.found, self.found.free[index]
        low, high = found.interval(index)
        return {
            "name": prior.name,
            "value": getattr(found.constants, prior.name),
            "low": low,
            "high": high,
            "prior": prior.value,
            "unit": prior.unit,
            "identified": found.is_identified(index),
        }

    def _row(self, index: int) -> dict[str, Any]:
        run, (low, high) = self.found.runs[index], self.found.intervals[index]
        return {
            **run.known.model_dump(),
            "predicted_ms": float(self.found.seconds[index]) * 1e3,
            "measured_ms": run.step_time * 1e3,
            "low_ms": low * 1e3,
            "high_ms": high * 1e3,
            "predicted_exposed_ms": self._exposed_ms(index),
            "measured_exposed_ms": None if run.exposed is None else run.exposed * 1e3,
        }

    def _exposed_ms(self, index: int) -> float | None:
        run, found = self.found.runs[index], self.found
        if run.exposed is None:
            return None
        job = prepare(run.scenario)
        return 1e3 * exposed_seconds(job, found.constants, float(found.seconds[index]))

    def _left_out(self) -> dict[str, Any]:
        apart = [abs(each) for each in self.found.left_out.tolist() if not isnan(each)]
        return {
            "n": len(apart),
            "median_ape": sorted(apart)[len(apart) // 2] if apart else None,
            "mean_ape": sum(apart) / len(apart) if apart else None,
            "worst_ape": max(apart, default=None),
        }


def calibrate(runs: Sequence[MeasuredRun], target: Scenario) -> Calibration:
    """Fit the constants to ``runs``, for ``target``. Raises DpsimError where there are none."""
    return Calibration(fitted(runs), target)
