"""Fit the constants of dpsim/convergence to published runs, and write constants.yaml.

``python -m tools.refits.convergence_refit``. The runs are of one task with several batches: steps
to a target, and the gradients' noise up to there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.terminal import write_whole
from dpsim.convergence import NoiseForm, fit_law, left_out_errors, noise_scale
from tools.refits.yaml_files import rounded, yaml_text
from validate.published.tables.csv_file import Row
from validate.published.tables.packaged import packaged_rows

CONSTANTS = Path(__file__).parents[2] / "dpsim" / "convergence" / "constants.yaml"
HEADER = """\
# Written by: python -m tools.refits.convergence_refit. \
What they are: dpsim/convergence/law.py; of which runs: tasks.yaml.
# value in samples; error: standard deviation of the logarithm; \
left_out: each batch predicted by a law fitted without it.
# Fitted on validate/published/data: convergence.csv, \
adaptdl_convergence.csv and mlperf_reference_points.csv.
"""

# The data set of each task in convergence.csv.
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

    ``curves`` has one for each run, or is empty if none were published.
    """

    batches: tuple[float, ...]
    steps: tuple[float, ...]
    curves: tuple[Curve, ...] = ()

    @property
    def noise_scales(self) -> tuple[float, ...] | None:
        """Each run's noise scale: the median over its evaluations up to the target.

        None if no curves were published.
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
    if task in CASES:
        return Runs(*_in_order(_rows("convergence.csv", case_id=CASES[task])))
    hits = _rows("convergence.csv", dataset=HITS[task], metric="iterations_to_target")
    batches, steps = _in_order(hits)
    return Runs(batches, steps, _curves(HITS[task], batches))


def _rows(table: str, **texts: str) -> list[Row]:
    """Return the rows of a packaged table that have these texts in these columns."""
    wanted = texts.items()
    return [
        row
        for row in packaged_rows(table)
        if all(row.text(column) == text for column, text in wanted)
    ]


def _in_order(rows: Iterable[Row]) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return batches and steps of the runs, ascending in batch."""
    ordered = sorted(rows, key=lambda row: row.positive("global_batch"))
    return (
        tuple(row.positive("global_batch") for row in ordered),
        tuple(row.positive("value") for row in ordered),
    )


def _points(case: str) -> Runs:
    rows = _rows("mlperf_reference_points.csv", case_id=case, quality="ok")
    batches = tuple(row.positive("global_batch") for row in rows)
    samples = (row.positive("samples_to_target") for row in rows)
    return Runs(batches, tuple(n / batch for n, batch in zip(samples, batches, strict=True)))


def _crossings(model: str, target: float) -> Runs:
    """Return runs with the steps at the first evaluation at or below ``target``."""
    rows = _rows("adaptdl_convergence.csv", model=model)
    batches = sorted({row.positive("global_batch") for row in rows})
    curves = _curves(model, batches)
    # argmax of booleans is the index of the first true one.
    steps = tuple(float(curve.steps[np.argmax(curve.metric <= target)]) for curve in curves)
    return Runs(tuple(batches), steps, curves)


def _curves(model: str, batches: Sequence[float]) -> tuple[Curve, ...]:
    """Return the curves of ``model``; gradients are logged for batches of the smallest size."""
    rows = _rows("adaptdl_convergence.csv", model=model)
    return tuple(
        _curve([row for row in rows if row.positive("global_batch") == batch], min(batches))
        for batch in batches
    )


def _curve(rows: Sequence[Row], base: float) -> Curve:
    """Return one run of the table.

    Where the logged noise is zero, the noise of neighbouring evaluations is used.
    """
    steps, progress, metric = (
        np.array([float(row.text(column)) for row in rows])
        for column in ("iteration", "progress", "metric")
    )
    logged = {}
    for index, row in enumerate(rows):
        squared, variance = row.number("grad_sqr"), row.number("grad_var")
        if squared is not None and variance is not None:
            logged[index] = noise_scale(squared, variance, base)
    noise = np.interp(steps, steps[list(logged)], list(logged.values()))
    return Curve(steps, progress, metric, noise)


def constants() -> dict[str, Any]:
    """Return the content of constants.yaml."""
    return {"tasks": {name: task_constants(name) for name in (*HITS, *CASES, *CURVES, *POINTS)}}


def task_constants(name: str) -> dict[str, Any]:
    """Return the constants of one task with their errors."""
    runs = runs_of(name)
    scales = runs.noise_scales
    noise = None if scales is None else float(np.median(scales))
    law = fit_law(runs.batches, runs.steps, noise)
    law_constants = {
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
        return law_constants
    return law_constants | {"noise_scale": rounded(noise, 3), **_noise_form(runs)}


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
