"""A scenario predicted and run for real, side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np

from dpsim.engine import Interval, Recording, Result, Run, Steps
from validate.emulate import Case, Measured
from validate.records import OF_A_STEP, RunRecord

EVERY_STEP = Recording(steps=None)  # the recording of a prediction for `step_run`


@dataclass(frozen=True, slots=True, eq=False)
class StepRun:
    """One scenario predicted, and measured in some repetitions.

    ``collectives`` has mean seconds of each, predicted and measured. ``failed`` is the reason if
    the measurement is incomplete, else "". ``memory`` has the bytes of a rank, predicted and
    measured, if they were measured; ``hidden`` says whether overlapped communication was; ``notes``
    are remarks for users about the comparison.
    """

    case: Case
    predicted: Result
    measured: Result
    collectives: Mapping[str, Mapping[str, float | None]]
    repetitions_s: tuple[float, ...]
    failed: str = ""
    device: str = "cpu"
    backend: str = "gloo"
    memory: Mapping[str, float | None] = field(default_factory=dict)
    hidden: bool = True
    notes: tuple[str, ...] = ()

    @property
    def error(self) -> dict[str, float]:
        """Predicted minus measured: the step time relative to the measured, each part in s."""
        predicted, measured = self.predicted, self.measured
        parts = {
            f"{part}_s": predicted.parts_s[part] - seconds
            for part, seconds in measured.parts_s.items()
        }
        whole = measured.step_time_s["mean"]
        return {
            "step_time": predicted.step_time_s["mean"] / whole - 1,
            "step_time_s": predicted.step_time_s["mean"] - whole,
            **parts,
        }

    def to_json(self) -> dict[str, Any]:
        """Return the object of ``dpsim validate run --json``; ``once_s`` is not measured."""
        # Same as the simulator's answer, except for values that ranks do not measure.
        measured = {**self.measured.to_json(), "once_s": {"startup": None, "consensus": None}}
        if not self.hidden:
            measured["overlapped_comm_s"] = None
        return {
            "schema_version": 1,
            "kind": "validate-run",
            "scenario": self.case.file,
            "set": list(self.case.set),
            "predicted": self.predicted.to_json(),
            "measured": measured,
            "error": self.error,
            "collectives": [{"name": name, **both} for name, both in self.collectives.items()],
            "repetitions_s": list(self.repetitions_s),
            "partial": bool(self.failed),
            "failed": self.failed or None,
            "device": self.device,
            "backend": self.backend,
            "memory": {"predicted_bytes": None, "measured_bytes": None, **self.memory},
            "notes": list(self.notes),
        }

    def record(self, name: str = "", setting: str = "") -> RunRecord:
        """Return the record of it that comparisons read."""
        sides = {"predicted": self.predicted.to_json(), "measured": self.measured.to_json()}
        kept = {side: {key: values[key] for key in OF_A_STEP} for side, values in sides.items()}
        strategy = self.case.scenario().strategy
        case = {
            "scenario": self.case.file,
            "set": list(self.case.set),
            "aggregation": strategy.aggregation.kind,
            "sync": strategy.sync.kind,
            "overlap": strategy.overlap.kind,
            "compression": strategy.compression.kind,
            "workers": self.predicted.workers,
            "device": self.device,
            "backend": self.backend,
            "repetitions_s": list(self.repetitions_s),
            **kept,
        }
        return RunRecord(
            kind="step",
            name=name or self.predicted.name,
            setting=setting,
            case=case,
            # Give the mean of the typical steps; the case has the repetitions' means.
            measured_s=(self.measured.step_time_s["mean"],),
            predicted_s=self.predicted.step_time_s["mean"],
            partial=bool(self.failed),
            notes=(f"partial: {self.failed}",) if self.failed else (),
        )


def step_run(
    case: Case, run: Run, repetitions: Sequence[Measured], failed: str = ""
) -> StepRun | None:
    """Return the measurement of ``case`` beside its prediction ``run``, recorded by `EVERY_STEP`.

    None if no step that counts was measured.
    """
    predicted = run.result
    counted = [each.steps.after(run.scenario.run.warmup) for each in repetitions]
    counted = [steps for steps in counted if len(steps.compute)]
    if not counted:
        return None
    steps = typical(counted, independent_workers=predicted.independent_workers)
    # Links carry the same bytes in another time, so utilisation is proportional to 1 / time.
    ratio = predicted.step_time_s["mean"] / float(steps.step.mean())
    traffic = replace(
        predicted.traffic,
        busiest_link_utilisation=predicted.traffic.busiest_link_utilisation * ratio,
    )
    # Everything else (traffic, sizes, the cluster) is the scenario's, and so the same.
    measured = replace(
        predicted,
        steps=steps,
        traffic=traffic,
        calibration="measured",
        to_target=None,
        goodput=None,
    )
    collectives = _collectives(run, repetitions) if not predicted.independent_workers else {}
    return StepRun(
        case,
        predicted,
        measured,
        collectives,
        tuple(float(each.step.mean()) for each in counted),
        failed,
    )


def _collectives(run: Run, repetitions: Sequence[Measured]) -> dict[str, dict[str, float | None]]:
    """Return the mean seconds of each message per worker, predicted and measured.

    Measured: the median of the repetitions.
    """
    predicted = _message_seconds(run)
    measured: dict[str, list[float]] = {}
    for repetition in repetitions:
        for name, seconds in repetition.collectives.items():
            measured.setdefault(name, []).append(seconds)
    # Take names from prediction and measurement, to show messages that one of them lacks.
    return {
        name: {
            "predicted_s": float(np.mean(predicted[name])) if name in predicted else None,
            "measured_s": float(np.median(measured[name])) if name in measured else None,
        }
        for name in dict.fromkeys([*predicted, *measured])
    }


def _message_seconds(run: Run) -> dict[str, list[float]]:
    """Return the predicted seconds of each message, one for every worker and step."""
    stages: dict[tuple[int, str], dict[str, list[Interval]]] = {}
    for each in run.intervals():
        if each.stream == "communication":
            message = each.worker, each.name.rpartition(": ")[0]
            stages.setdefault(message, {}).setdefault(each.name, []).append(each)
    seconds: dict[str, list[float]] = {}
    for (_, name), by_stage in stages.items():
        # A message may be several collectives, such as a reduce-scatter and an all-gather.
        for of_step in zip(*by_stage.values(), strict=False):
            start = min(each.start for each in of_step)
            end = max(each.end for each in of_step)
            seconds.setdefault(name, []).append(end - start)
    return seconds


def typical(repetitions: Sequence[Steps], *, independent_workers: bool) -> Steps:
    """The median repetition of each step: the lower of the two in the middle.

    Every repetition has the same steps, since seeds are equal; differences are due to the machine.
    The median excludes steps that were held up by something else on the machine, and keeps steps
    that communicate more than others.

    It is chosen for all workers at once, or for each of ``independent_workers``. Only steps that
    all repetitions have count.
    """
    whole = min(len(each.compute) for each in repetitions)
    totals = np.stack([each.step[:whole] for each in repetitions])
    if not independent_workers:
        totals = np.broadcast_to(totals.mean(axis=2, keepdims=True), totals.shape)
    # From (repetitions, steps, workers) to the number of a repetition, (steps, workers).
    middle = np.argsort(totals, axis=0, kind="stable")[(len(repetitions) - 1) // 2]

    def chosen(name: str) -> Any:
        stacked = np.stack([getattr(each, name)[:whole] for each in repetitions])
        return np.take_along_axis(stacked, middle[None], axis=0)[0]

    return Steps(**{field.name: chosen(field.name) for field in fields(Steps)})
