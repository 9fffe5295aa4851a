"""Layer times of measured models, and the errors of interpolating between batch sizes.

A layer's time is its median share of the median pass, over the repetitions at a batch size; its
interval comes from shares and passes drawn with replacement (a bootstrap). The residuals are errors
of whole steps, forward and backward, at each batch size but the smallest and the largest,
interpolated as if it had not been measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import product
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.hardware import MeasuredModel
from dpsim.workload import between
from validate.calibrate.line import RESAMPLES, bootstrap_medians, parameter
from validate.microbench.run_file import RunFile, of_layers

_SEED = 0
_WAYS = ("forward", "backward")


def measured_model(run: RunFile) -> MeasuredModel:
    """Return the model whose layers were measured in ``run``."""
    rows = sorted(run.of("layers"), key=lambda row: int(row["batch_size"]))
    # All tables share the generator in this order, so that a profile's intervals are repeatable.
    generator = np.random.default_rng(_SEED)
    tables: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for row, way in product(rows, _WAYS):
        seconds, low, high = _layers(row, way, generator).tolist()
        tables[f"{way}_s"].append(tuple(seconds))
        tables[f"{way}_low_s"].append(tuple(low))
        tables[f"{way}_high_s"].append(tuple(high))
    updates: dict[str, list[float]] = defaultdict(list)
    for row in run.of("layers"):
        updates[row["optimizer"]] += row["optimizer_times_s"]
    return MeasuredModel(
        model=rows[0]["model"],
        device=rows[0]["device"],
        layers=tuple(rows[0]["layers"]),
        batch_sizes=tuple(row["batch_size"] for row in rows),
        optimizers={
            name: parameter(np.array(bootstrap_medians([times])).ravel(), "s")
            for name, times in sorted(updates.items())
        },
        **{field: tuple(table) for field, table in tables.items()},
    )


def step_errors(model: MeasuredModel) -> list[float]:
    """Return the relative error of each inner batch size's step, interpolated from the others."""
    sizes = np.array(model.batch_sizes, dtype=float)
    # Tables are (batch sizes, layers): sums are whole steps of each batch size.
    steps = np.array(model.forward_s).sum(axis=1) + np.array(model.backward_s).sum(axis=1)
    errors = []
    # The ends are kept: without one of them its time would be extrapolated.
    for left_out in range(1, len(sizes) - 1):
        other_sizes = np.delete(sizes, left_out)
        other_steps = np.delete(steps, left_out)[:, None]
        (interpolated,) = between(other_sizes, other_steps, model.batch_sizes[left_out])
        errors.append(float(interpolated / steps[left_out] - 1))
    return errors


def _layers(row: Mapping[str, Any], way: str, generator: np.random.Generator) -> FloatArray:
    """Return each layer's seconds and the bounds of its interval: shape (3, layers)."""
    shares = np.array(row[f"{way}_shares"])
    passes = np.array(row[f"{way}_pass_times_s"])
    # Shares and passes are drawn separately: hooks that time layers slow a pass, so the two are
    # measured in separate repetitions.
    draws = []
    for _ in range(RESAMPLES):
        some_shares = generator.choice(shares, len(shares))
        some_passes = generator.choice(passes, len(passes))
        draws.append(of_layers(some_shares, some_passes))
    interval = np.percentile(draws, [2.5, 97.5], axis=0)
    return np.vstack([of_layers(shares, passes), interval])
