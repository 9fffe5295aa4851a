"""The reliability of a prediction: sources of its error, and measurements that reduce it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from dpsim.base.uncertainty import PredictionInterval
from dpsim.engine import Run, calibrated_error, errors_interval, step_errors, whole_step_errors
from dpsim.hardware import KnownRun
from dpsim.studies.calibrate import plan
from dpsim.studies.explain.uncertainty import Uncertainty, uncertainty_of


@dataclass(frozen=True, slots=True)
class Measure:
    """A possible measurement, and the interval of the prediction after it."""

    what: str
    how: str
    interval: PredictionInterval

    def to_json(self) -> dict[str, Any]:
        """Return the fields as JSON; ``narrows_to`` is high over low."""
        return {
            "what": self.what,
            "how": self.how,
            "narrows_to": self.interval.width,
            "low": self.interval.low,
            "high": self.interval.high,
        }


@dataclass(frozen=True, slots=True)
class Trust:
    """The interval of a step, its sources, and measurements that narrow it, the best first."""

    name: str
    step_time_s: float
    interval: PredictionInterval
    uncertainty: Uncertainty
    measures: tuple[Measure, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the object of ``dpsim trust --json``."""
        shares = {each.name: each.total for each in self.uncertainty.inputs}
        interval = self.interval.to_json()
        return {
            "schema_version": 1,
            "kind": "trust",
            "name": self.name,
            "step_time_s": self.step_time_s,
            "interval_s": interval,
            "width": self.interval.width,
            "sources": [
                {**source, "share": shares.get(source["name"])} for source in interval["sources"]
            ],
            "nearest": interval["nearest"],
            "measure": [each.to_json() for each in self.measures],
        }


def trust(run: Run) -> Trust:
    """Return what determines the interval of the run's mean step, and what would narrow it."""
    interval = run.result.interval
    assert interval is not None
    ranked = sorted(_measures(run, interval.width), key=lambda each: each.interval.width)
    return Trust(run.job.scenario.name, run.step_time, interval, uncertainty_of(run), tuple(ranked))


def _measures(run: Run, width: float) -> Iterator[Measure]:
    """Yield the measurements, not made yet, that narrow the interval."""
    job, errors = run.job, step_errors(run.job, run.steps)
    if job.model.measured is not None:
        return
    batch, fullest = job.scenario.workload.batch_per_gpu, max(job.workers_of_nodes)
    how = "calibration: {nodes: 1, step_time: ..., source: ...} in the scenario"
    tried = {}
    for name, gpus in (("one step on one GPU", 1), ("one step on one full node", fullest)):
        known = (KnownRun(nodes=1, gpus_per_node=gpus, batch=batch),)
        scaled = calibrated_error(job, known, fitted=False)
        tried[name] = how, replace(errors, computing=scaled)
    four = tuple(each.run for each in plan(job.scenario))
    fitted = calibrated_error(job, four, fitted=True)
    how = "dpsim calibrate --plan FILE, then dpsim calibrate FILE STEPS.csv -o PROFILE.json"
    whole_steps = whole_step_errors(fitted, errors.rest + errors.exposed)
    tried["the four steps of dpsim calibrate --plan"] = how, whole_steps
    for name, (how, then) in tried.items():
        interval = errors_interval(then)
        if interval.width < width:
            yield Measure(name, how, interval)
