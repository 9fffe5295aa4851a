"""Layer times of measured models, and the errors of interpolating between batch sizes.

A layer's time is its median share of the median pass, over the repetitions of all runs at that
batch size; its interval comes from shares and passes drawn with replacement (a bootstrap). The
residuals are errors of whole steps, forward and backward, at each batch size but the smallest and
the largest, interpolated as if it had not been measured.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.hardware import MeasuredModel
from dpsim.workload import between
from validate.calibrate.line import RESAMPLES, drawn, parameter
from validate.microbench.run_file import RunFile, of_layers

Row = Mapping[str, Any]

_SEED = 0
_WAYS = ("forward", "backward")


def measured_models(runs: Sequence[RunFile]) -> tuple[MeasuredModel, ...]:
    """Return the models whose layers were measured in ``runs``, one for each device.

    Raises DpsimError for runs that do not fit together.
    """
    rows: dict[tuple[str, str], list[Row]] = defaultdict(list)
    updates: dict[tuple[str, str], dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        for row in run.of("layers"):
            measured = row["model"], row["device"]
            rows[measured].append(row)
            updates[measured][row["optimizer"]] += row["optimizer_times_s"]
        for row in run.of("optimizer"):
            # These rows do not name their device: it is that of rank 0, which measured them.
            measured = row["model"], run.ranks[0].device_name
            updates[measured][row["optimizer"]] += row["times_s"]
    return tuple(
        _model(name, device, own, updates[name, device]) for (name, device), own in rows.items()
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


def repetition_errors(runs: Sequence[RunFile], model: MeasuredModel) -> list[float]:
    """Return the relative deviation of each repetition of a pass from the profile's time."""
    counted = {}
    for way in _WAYS:
        passes = np.array(getattr(model, f"{way}_s")).sum(axis=1)
        for size, seconds in zip(model.batch_sizes, passes, strict=True):
            counted[way, size] = seconds
    errors = []
    for row in (row for run in runs for row in run.of("layers")):
        if (row["model"], row["device"]) != (model.model, model.device):
            continue
        for way in _WAYS:
            whole = counted[way, row["batch_size"]]
            errors += [float(seconds / whole - 1) for seconds in row[f"{way}_pass_times_s"]]
    return errors


def _model(
    name: str, device: str, rows: Sequence[Row], updates: Mapping[str, Sequence[float]]
) -> MeasuredModel:
    layers = tuple(rows[0]["layers"])
    by_batch = _by_batch(name, layers, rows)
    # One generator for all tables in this order, so that a profile's intervals are repeatable.
    generator = np.random.default_rng(_SEED)
    tables: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    for size, way in product(sorted(by_batch), _WAYS):
        seconds, low, high = _layers(by_batch[size], way, generator).tolist()
        tables[f"{way}_s"].append(tuple(seconds))
        tables[f"{way}_low_s"].append(tuple(low))
        tables[f"{way}_high_s"].append(tuple(high))
    optimizers = {}
    for kind, times in sorted(updates.items()):
        draws = np.array(drawn([times])).ravel()
        optimizers[kind] = parameter(draws, "s")
    return MeasuredModel(
        model=name,
        device=device,
        layers=layers,
        batch_sizes=tuple(sorted(by_batch)),
        optimizers=optimizers,
        **{field: tuple(table) for field, table in tables.items()},
    )


def _by_batch(
    name: str, layers: tuple[str, ...], rows: Sequence[Row]
) -> Mapping[int, Sequence[Row]]:
    """Group rows by batch size. Raises DpsimError if one has other ``layers`` than the first."""
    found: dict[int, list[Row]] = defaultdict(list)
    for row in rows:
        if tuple(row["layers"]) != layers:
            raise DpsimError(
                f"runs must have the same layers of {name}, but have {len(layers)} and "
                f"{len(row['layers'])}, or other names"
            )
        found[row["batch_size"]].append(row)
    return found


def _layers(rows: Sequence[Row], way: str, generator: np.random.Generator) -> FloatArray:
    """Return each layer's seconds and the bounds of its interval: shape (3, layers)."""
    shares = np.concatenate([row[f"{way}_shares"] for row in rows])
    passes = np.concatenate([row[f"{way}_pass_times_s"] for row in rows])
    # Shares and passes are drawn separately: hooks that time layers slow a pass, so the two are
    # measured in separate repetitions.
    draws = []
    for _ in range(RESAMPLES):
        some_shares = generator.choice(shares, len(shares))
        some_passes = generator.choice(passes, len(passes))
        draws.append(of_layers(some_shares, some_passes))
    interval = np.percentile(draws, [2.5, 97.5], axis=0)
    return np.vstack([of_layers(shares, passes), interval])
