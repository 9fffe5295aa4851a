"""The answer of a calibration: the fit to measured runs, and what it means for a scenario."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isnan
from os import PathLike
from statistics import fmean, median
from typing import Any

from dpsim.engine import simulate
from dpsim.hardware import CalibrationProfile, any_multi_node
from dpsim.scenario import Scenario
from dpsim.studies.calibrate.fit import Fitted, MeasuredRun, fit_constants, links_too_slow
from dpsim.studies.calibrate.next_runs import Proposed, measure_next
from dpsim.studies.calibrate.profile import (
    disturbance_of,
    jitter_of,
    profile_of,
    spread_of,
)

_SINGLE_NODES = (
    "no run went over several nodes, so nothing is known of the network between them: measure two "
    "full nodes before you believe a prediction beyond one"
)
_HIGH_RESIDUAL = 0.07  # with larger residuals, the model's form does not describe the cluster


@dataclass(frozen=True)
class Calibration:
    """The constants ``found`` from measured runs, to predict ``target`` and similar runs."""

    found: Fitted
    target: Scenario
    apart: tuple[MeasuredRun, ...] = ()

    @cached_property
    def profile(self) -> CalibrationProfile:
        """The calibration profile that predicts other runs."""
        return profile_of(self.found, self.target.name, self.target.profile)

    @cached_property
    def proposed(self) -> tuple[Proposed, ...]:
        """The runs to measure next."""
        return measure_next(self.found, self.target)

    @cached_property
    def held_out(self) -> tuple[dict[str, Any], ...]:
        """The held-out runs, with the predictions of `dpsim run` with the profile."""
        rows = []
        for run in self.apart:
            calibrated = run.scenario.model_copy(update={"calibration": self.profile})
            result = simulate(calibrated)
            interval = result.interval
            bounds = (None, None) if interval is None else (interval.low, interval.high)
            rows.append(_row(run, result.step_time_s["mean"], *bounds))
        return tuple(rows)

    @property
    def held_out_errors(self) -> dict[str, Any]:
        """The prediction errors of the held-out runs, absolute and relative."""
        return _errors([row["predicted_ms"] / row["measured_ms"] - 1 for row in self.held_out])

    @property
    def jitter(self) -> dict[str, float | str] | None:
        """The jitter of runs that were logged step by step, as ``disturbance.jitter``."""
        found = jitter_of(self.found.runs)
        return None if found is None else found.jitter

    @cached_property
    def disturbance(self) -> tuple[dict[str, Any] | None, list[dict[str, float]]]:
        """The ``disturbance`` that single steps show (None without any), and their quantiles."""
        return disturbance_of(self.found.runs) or (None, [])

    @property
    def warnings(self) -> list[str]:
        """Warnings about impossible runs, unknown constants, and a poor fit."""
        found = self.found
        warnings = [
            each for each in map(links_too_slow, found.runs, found.jobs) if each is not None
        ]
        several = sum(part.nodes for part in self.target.cluster.parts) > 1
        if several and not any_multi_node(found.known):
            warnings.append(_SINGLE_NODES)
        rms = float((found.residuals**2).mean() ** 0.5)
        if rms > _HIGH_RESIDUAL:
            warnings.append(
                f"the runs are off by {rms:.0%} though they were fitted to: these constants do not "
                "describe all that differs on this cluster"
            )
        return warnings

    def to_json(self, written: str | PathLike[str] | None = None) -> dict[str, Any]:
        """Return the JSON of `dpsim calibrate`; ``written`` is the file of the profile."""
        return {
            "schema_version": 1,
            "kind": "calibrate",
            "parameters": [self._parameter(index) for index in range(len(self.found.free))],
            "rows": self.rows,
            "left_out": _errors([row["left_out"] for row in self.rows]),
            "held_out": {**self.held_out_errors, "rows": list(self.held_out)},
            "jitter": self.jitter,
            "disturbance": self.disturbance[0],
            "quantiles": self.disturbance[1],
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

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        """The fitted runs, measured and predicted."""
        found = self.found
        predicted = zip(found.seconds.tolist(), found.exposed, found.intervals, strict=True)
        each = zip(found.runs, predicted, found.left_out, strict=True)
        return [
            {
                **_row(run, seconds, low, high),
                "predicted_exposed_ms": None if run.exposed is None else 1e3 * exposed,
                "left_out": None if isnan(apart) else -float(apart),
            }
            for run, (seconds, exposed, (low, high)), apart in each
        ]


def _row(
    run: MeasuredRun, predicted: float, low: float | None, high: float | None
) -> dict[str, Any]:
    return {
        **run.place.model_dump(exclude={"residual"}),
        "predicted_ms": predicted * 1e3,
        "measured_ms": run.step_time * 1e3,
        "low_ms": None if low is None else low * 1e3,
        "high_ms": None if high is None else high * 1e3,
        "measured_exposed_ms": None if run.exposed is None else run.exposed * 1e3,
        "steps": len(run.steps) or None,
        "spread": spread_of(run),
        "slow_down": None if run.by_rank is None else run.by_rank.slow_down,
    }


def _errors(errors: Sequence[float | None]) -> dict[str, Any]:
    apart = [abs(each) for each in errors if each is not None]
    return {
        "n": len(apart),
        "median_ape": median(apart) if apart else None,
        "mean_ape": fmean(apart) if apart else None,
        "worst_ape": max(apart, default=None),
    }


def calibrate(runs: Sequence[MeasuredRun], target: Scenario) -> Calibration:
    """Fit the constants to the runs that are not held out. Raises DpsimError if there are none."""
    kept = [run for run in runs if not run.held_out]
    return Calibration(fit_constants(kept), target, tuple(run for run in runs if run.held_out))
