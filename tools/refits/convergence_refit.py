"""Fit the constants of dpsim/convergence to published runs, and write constants.yaml.

``python -m tools.refits.convergence_refit``. The runs are of one task with several batches: steps
to a target, and the gradients' noise up to there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.base.arrays import BoolArray, FloatArray
from dpsim.base.terminal import write_whole
from dpsim.convergence import NoiseForm, fit_law, left_out_errors, noise_scale
from tools.refits.yaml_files import rounded, yaml_text
from validate.published.tables.columns import Columns, packaged_table

CONSTANTS = Path(__file__).parents[2] / "dpsim" / "convergence" / "constants.yaml"
HEADER = """\
# Written by: python -m tools.refits.convergence_refit. \
What they are: dpsim/convergence/law.py; of which runs: tasks.yaml.
# value in samples; error: standard deviation of the logarithm; \
left_out: each batch predicted by a law fitted without it.
# Fitted on validate/published/data: convergence.csv, \
adaptdl_convergence.csv and mlperf_reference_points.csv.
"""


_CURVES = ("model", "global_batch", "progress", "iteration", "metric", "grad_sqr", "grad_var")
_HITS = ("case_id", "dataset", "global_batch", "metric", "value")
_POINTS = ("case_id", "global_batch", "samples_to_target", "quality")
# The sources of a task's runs: the data set's name in convergence.csv, ...
HITS: Mapping[str, str] = {
    "resnet50-imagenet": "imagenet",
    "resnet18-cifar10": "cifar10",
    "bert-base-squad": "bert",
    "deepspeech2-arctic": "deepspeech2",
    "neumf-movielens": "ncf",
}
# ... the case there, without logged noise, ...
CASES: Mapping[str, str] = {"resnet32-cifar10": "usts_steps_to_target_resnet32"}
# ... the model in adaptdl_convergence.csv with our own target (a decreasing metric), ...
CURVES: Mapping[str, tuple[str, float]] = {"yolov3-voc": ("yolov3", 13.0)}
# ... or the case in mlperf_reference_points.csv.
POINTS: Mapping[str, str] = {
    "resnet50-imagenet-lars": "mlperf_reference_resnet",
    "bert-large-pretraining": "mlperf_reference_bert",
}


@dataclass(frozen=True, slots=True)
class Curve:
    """One run, at each evaluation.

    Steps, progress in steps of the smallest batch, quality, and noise scale in samples.
    """

    steps: FloatArray
    progress: FloatArray
    metric: FloatArray
    noise: FloatArray


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs of a task, ascending in batch.

    ``curves`` has one for each run, or is empty where none were published.
    """

    batches: tuple[float, ...]
    steps: tuple[float, ...]
    curves: tuple[Curve, ...] = ()

    @property
    def noise_scales(self) -> tuple[float, ...] | None:
        """Each run's noise scale: the median over its evaluations up to the target.

        None where no curves were published.
        """
        if not self.curves:
            return None
        pairs = zip(self.curves, self.steps, strict=True)
        return tuple(
            # At least the first evaluation counts, also where the target was met before it.
            float(np.median(curve.noise[curve.steps <= max(end, curve.steps[0])]))
            for curve, end in pairs
        )

    def noise_form(self, without: int | None = None) -> NoiseForm:
        """Return the gradient-noise form of the task: medians over the runs, all but ``without``.

        Medians are of the progress at the target, and of the noise scale in each period between
        evaluations, which are at equal progress in all runs; each evaluation logs the noise of the
        period before it.
        """
        kept = [index for index in range(len(self.batches)) if index != without]
        curves = [self.curves[index] for index in kept]
        ends = [
            np.interp(self.steps[index], self.curves[index].steps, self.curves[index].progress)
            for index in kept
        ]
        progress, period = (
            float(np.median(ends)),
            float(np.median([curve.progress[0] for curve in curves])),
        )
        periods = max(1, round(progress / period))
        noise = np.median([curve.noise[:periods] for curve in curves], axis=0)
        return NoiseForm(
            base_batch=self.batches[0],
            progress=progress,
            period=period,
            noise_scales=tuple(noise.tolist()),
        )

    def noise_form_errors(self) -> FloatArray:
        """Return each run's relative error, predicted by the gradient-noise form of the others."""
        guesses = [self.noise_form(out).steps(batch) for out, batch in enumerate(self.batches)]
        return np.asarray(np.array(guesses) / np.array(self.steps) - 1)


def runs_of(task: str) -> Runs:
    """Return the published runs of a task of `dpsim.convergence.tasks`."""
    if task in POINTS:
        return _points(POINTS[task])
    if task in CURVES:
        return _crossings(*CURVES[task])
    rows = packaged_table("convergence.csv", _HITS)
    if task in CASES:
        return Runs(*_in_order(rows.where(rows.text("case_id") == CASES[task])))
    rows = rows.where(
        (rows.text("dataset") == HITS[task]) & (rows.text("metric") == "iterations_to_target")
    )
    batches, steps = _in_order(rows)
    return Runs(batches, steps, _curves(HITS[task], np.array(batches)))


def _in_order(rows: Columns) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return batches and steps of the runs, ascending in batch."""
    batches, steps = rows.numbers("global_batch"), rows.numbers("value")
    order = np.argsort(batches, kind="stable")
    return tuple(batches[order].tolist()), tuple(steps[order].tolist())


def _points(case: str) -> Runs:
    rows = packaged_table("mlperf_reference_points.csv", _POINTS)
    rows = rows.where((rows.text("case_id") == case) & (rows.text("quality") == "ok"))
    batches = rows.numbers("global_batch")
    return Runs(
        tuple(batches.tolist()), tuple((rows.numbers("samples_to_target") / batches).tolist())
    )


def _crossings(model: str, target: float) -> Runs:
    """Return runs with the steps at the first evaluation at or below ``target``."""
    batches = np.unique(
        packaged_table("adaptdl_convergence.csv", _CURVES).where(_of(model)).numbers("global_batch")
    )
    curves = _curves(model, batches)
    # argmax of booleans is the index of the first true one.
    steps = tuple(float(curve.steps[np.argmax(curve.metric <= target)]) for curve in curves)
    return Runs(tuple(batches.tolist()), steps, curves)


def _of(model: str) -> BoolArray:
    return np.asarray(packaged_table("adaptdl_convergence.csv", _CURVES).text("model") == model)


def _curves(model: str, batches: FloatArray) -> tuple[Curve, ...]:
    """Return the curves of ``model``; gradients are logged for batches of the smallest size."""
    rows = packaged_table("adaptdl_convergence.csv", _CURVES).where(_of(model))
    return tuple(
        _curve(rows.where(rows.numbers("global_batch") == batch), float(batches.min()))
        for batch in batches
    )


def _curve(rows: Columns, base: float) -> Curve:
    """Return one run of the table.

    Where the logged noise is zero, the noise of neighbouring evaluations is used.
    """
    steps, squared, variance = (
        rows.numbers("iteration"),
        rows.above_zero("grad_sqr"),
        rows.above_zero("grad_var"),
    )
    known = np.flatnonzero(~np.isnan(squared) & ~np.isnan(variance))
    logged = [noise_scale(float(squared[row]), float(variance[row]), base) for row in known]
    return Curve(
        steps,
        rows.numbers("progress"),
        rows.numbers("metric"),
        np.interp(steps, steps[known], logged),
    )


def constants() -> dict[str, Any]:
    """Return the content of constants.yaml."""
    return {"tasks": {name: task_constants(name) for name in (*HITS, *CASES, *CURVES, *POINTS)}}


def task_constants(name: str) -> dict[str, Any]:
    """Return the constants of one task with their errors."""
    runs = runs_of(name)
    scales = runs.noise_scales
    noise = None if scales is None else float(np.median(scales))
    law = fit_law(runs.batches, runs.steps, noise)
    found = {
        "least_samples": {
            "value": rounded(law.least_samples, 5),
            "error": rounded(law.least_samples_error, 2),
        },
        "critical_batch": {
            "value": rounded(law.critical_batch, 5),
            "error": rounded(law.critical_batch_error, 2),
        },
        "correlation": rounded(law.correlation, 2),
        "noise": rounded(law.noise, 2),
        "batches": [runs.batches[0], runs.batches[-1]],
        "left_out": _errors(left_out_errors(runs.batches, runs.steps, scales)),
    }
    # Tasks of which only steps are known have no known noise of gradients.
    if noise is None:
        return found
    return found | {"noise_scale": rounded(noise, 3), **_noise_form(runs)}


def _noise_form(runs: Runs) -> dict[str, Any]:
    form = runs.noise_form()
    content = {
        "base_batch": form.base_batch,
        "progress": rounded(form.progress, 5),
        "period": rounded(form.period, 5),
        "noise_scales": [rounded(scale, 3) for scale in form.noise_scales],
    }
    return {"noise_form": content, "left_out_by_noise": _errors(runs.noise_form_errors())}


def _errors(errors: FloatArray) -> dict[str, float]:
    size = np.abs(errors)
    return {
        "runs": len(size),
        "median": rounded(float(np.median(size)), 2),
        "worst": rounded(float(size.max()), 2),
    }


def text() -> str:
    """Return the text of constants.yaml."""
    return yaml_text(HEADER, constants())


if __name__ == "__main__":
    write_whole(CONSTANTS, text())
