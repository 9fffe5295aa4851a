"""Layer times of measured models, and how well batch sizes between others are interpolated.

A layer's time is its median share of the median pass, over the repetitions of all runs at that
batch size; an interval comes from shares and passes drawn with replacement (a bootstrap). Residuals
are those of whole steps, forward and backward, at each batch size but the smallest and the largest,
interpolated as if it had not been measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.hardware import MeasuredModel
from dpsim.workload import between
from validate.calibrate.line import RESAMPLES, drawn, parameter

if TYPE_CHECKING:
    from validate.microbench import RunFile

Row = Mapping[str, Any]

_SEED = 0


def measured_models(runs: Sequence[RunFile]) -> tuple[MeasuredModel, ...]:
    """The models whose layers were measured in ``runs``, one for each device.

    Raises DpsimError where runs do not go together.
    """
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    updates: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for row in run.of("layers"):
            rows[row["model"], row["device"]].append(row)
            updates[row["model"], row["device"]][row["optimizer"]] += row["optimizer_times_s"]
        for row in run.of("optimizer"):
            updates[row["model"], run.ranks[0].device_name][row["optimizer"]] += row["times_s"]
    return tuple(_model(*key, own, updates[key]) for key, own in rows.items())


def step_errors(model: MeasuredModel) -> list[float]:
    """The relative error of the step at each batch size between others, interpolated from those."""
    sizes = np.array(model.batch_sizes, dtype=float)
    steps = np.array(model.forward_s).sum(axis=1) + np.array(model.backward_s).sum(axis=1)
    errors = []
    for place in range(1, len(sizes) - 1):
        others = np.delete(sizes, place), np.delete(steps, place)[:, None]
        errors.append(float(between(*others, model.batch_sizes[place])[0] / steps[place] - 1))
    return errors


def repetition_errors(runs: Sequence[RunFile], model: MeasuredModel) -> list[float]:
    """How far each repetition of a pass is from the time that counts, relative to it."""
    rows = [
        row
        for run in runs
        for row in run.of("layers")
        if (row["model"], row["device"]) == (model.model, model.device)
    ]
    counted = {
        way: dict(
            zip(model.batch_sizes, np.array(getattr(model, f"{way}_s")).sum(axis=1), strict=True)
        )
        for way in ("forward", "backward")
    }
    return [
        float(seconds / counted[way][row["batch_size"]] - 1)
        for row in rows
        for way in counted
        for seconds in row[f"{way}_pass_times_s"]
    ]


def _model(
    name: str, device: str, rows: Sequence[Row], updates: Mapping[str, Sequence[float]]
) -> MeasuredModel:
    layers = tuple(rows[0]["layers"])
    by_batch: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if tuple(row["layers"]) != layers:
            raise DpsimError(
                f"runs must have the same layers of {name}, but have {len(layers)} and "
                f"{len(row['layers'])}, or other names"
            )
        by_batch[row["batch_size"]].append(row)
    generator = np.random.default_rng(_SEED)
    tables: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for _, same in sorted(by_batch.items()):
        for way in ("forward", "backward"):
            for kind, times in zip(
                ("s", "low_s", "high_s"), _layers(same, way, generator), strict=True
            ):
                tables[f"{way}_{kind}"].append(tuple(times.tolist()))
    return MeasuredModel(
        model=name,
        device=device,
        layers=layers,
        batch_sizes=tuple(sorted(by_batch)),
        optimizers={
            kind: parameter(np.array(drawn([times])).ravel(), "s")
            for kind, times in sorted(updates.items())
        },
        **{field: tuple(table) for field, table in tables.items()},
    )


def _layers(rows: Sequence[Row], way: str, generator: np.random.Generator) -> FloatArray:
    """Each layer's seconds, and from where to where they may be: shape (3, layers)."""
    shares = np.array([each for row in rows for each in row[f"{way}_shares"]])
    passes = np.array([each for row in rows for each in row[f"{way}_pass_times_s"]])

    def seconds(some: FloatArray, times: FloatArray) -> FloatArray:
        median = np.median(some, axis=0)
        return np.asarray(median / median.sum() * np.median(times))

    draws = [
        seconds(generator.choice(shares, len(shares)), generator.choice(passes, len(passes)))
        for _ in range(RESAMPLES)
    ]
    return np.vstack([seconds(shares, passes), np.percentile(draws, [2.5, 97.5], axis=0)])
