"""A profile of this node: times of its products, memory, copies, models and collectives.

Microbenchmarks measure on all ranks at once, as in training. The profile keeps two thirds of the
sizes in each table of collectives; the others are held out to validate the library's model on this
node, refitted on the kept sizes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.engine import calibrated, constants_of
from dpsim.hardware import (
    NODE,
    CalibrationProfile,
    Gpu,
    Measured,
    MeasuredModel,
    Parameter,
    Residuals,
)
from dpsim.scenario import Scenario
from dpsim.workload import MODELS, WorkloadConfig
from validate.calibrate.compute import measured_model, step_errors
from validate.calibrate.line import fit_lines, parameter
from validate.microbench.models import subject
from validate.microbench.run_file import RunFile
from validate.node.items import Item
from validate.node.rows import Attempt, usual_s
from validate.node.spreads import EVERY, scaled_to_concurrent_steps, spreads_of
from validate.node.strategies import served_tables, with_wrappers

_IMAGE_DIMENSIONS = 3  # dimensions of an image
_FEWEST_SIZES = 3  # sizes that constants are fitted on
# The constant that each kind of product measures.
_CLASSES = {"gemm": "product", "conv": "conv"}
# The family of each precision.
_NAMES = {"fp32": "fp32", "tf32": "tf32", "fp16": "half", "bf16": "half"}
Rows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Held:
    """The kept and the held-out rows of a collective."""

    kept: Measured
    out: Measured


def profile_of(
    runs: Sequence[RunFile],
    scenario: Scenario,
    name: str,
    provenance: Mapping[str, str],
    carried: Sequence[tuple[Item, Attempt]] = (),
) -> CalibrationProfile:
    """Return the profile of all measurements in ``runs``; ``scenario`` describes this node.

    ``carried`` are scenarios that were run for it. Raises DpsimError if there are too few
    measurements of a kind.
    """
    gpu = scenario.cluster.accelerator
    tables = [held for run in runs for held in _tables(run)]
    models = [_model(run, scenario) for run in runs if run.of("layers")]
    copies = [one for run in runs for one in copies_of(run)]
    residuals = _held_out_errors(tables, scenario)
    spreads, errors_of_slowest = spreads_of(runs)
    if errors_of_slowest:
        name_of_slowest = "the slowest rank's computing, batch sizes left out"
        residuals[name_of_slowest] = Residuals.of(errors_of_slowest, "held-out rows")
    for model in models:
        if errors := step_errors(model):
            residuals[f"steps of {model.model}, batch sizes left out"] = Residuals.of(
                errors, "held-out rows"
            )

    constants: dict[str, Parameter] = {}
    for run in runs:
        constants |= _constants(run.of("products"), gpu)

    if not residuals:
        raise DpsimError(
            "a profile must have collectives of several sizes or models of several batch sizes, by "
            "which it is judged, but got neither: give it more minutes or ranks"
        )
    return CalibrationProfile(
        name=name,
        kind=NODE,
        formula="t = entry + latency x t_0 + bytes x (t - t_0) of the library's model",
        parameters=fit_copies(copies) if copies else {},
        compute=tuple(with_wrappers(models, carried)),
        network=(*(held.kept for held in tables), *served_tables(carried)),
        constants=constants,
        spreads=spreads,
        beside=_beside([row for run in runs for row in run.of("beside")]),
        gpu=gpu.name,
        residuals=next(iter(residuals.values())),
        residuals_by=residuals,
        runs={f"{len(run.ranks)} ranks, {', '.join(run.what)}": len(run.rows) for run in runs},
        provenance=dict(provenance),
    )


def _tables(run: RunFile) -> list[Held]:
    """Return each operation by the library over sizes, with the held-out ones separate."""
    rows: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in run.of("collectives"):
        rows[row["operation"]].append(row)
    tables = []
    for operation, own in rows.items():
        own.sort(key=lambda row: int(row["bytes"]))
        # Never hold out the smallest size, since it determines the table's entry most.
        out = own[1::EVERY]
        kept = [row for row in own if row not in out]
        if len(kept) >= _FEWEST_SIZES and out:
            tables.append(Held(_table(operation, kept, run), _table(operation, out, run)))
    return tables


def _table(operation: str, rows: Rows, run: RunFile) -> Measured:
    return Measured(
        operation=operation,
        ranks=len(run.ranks),
        hosts=len({place.host for place in run.ranks}),
        devices=tuple(dict.fromkeys(place.device_name for place in run.ranks)),
        sizes_bytes=tuple(row["bytes"] for row in rows),
        times_s=tuple(_seconds(row) for row in rows),
        backend=run.backend,
    )


def _seconds(row: Mapping[str, Any]) -> float:
    """Return the seconds since the last rank began, if clocks are shared: waiting is separate."""
    way = "" if row["times_s"] is not None else "in_place_"
    since_last = row[f"{way}since_last_s"]
    return usual_s(since_last if since_last is not None else row[f"{way}times_s"])


def _held_out_errors(tables: Sequence[Held], scenario: Scenario) -> dict[str, Residuals]:
    """Return the errors of the refitted models at the held-out sizes."""
    by_operation: dict[str, list[Held]] = defaultdict(list)
    for held in tables:
        by_operation[held.kept.operation].append(held)
    residuals = {}
    for operation, group in by_operation.items():
        backend = group[0].kept.backend
        bases = [base_of(scenario, held.kept) for held in group]
        # The profile keeps their tables even so, without errors.
        if any(base is None for base in bases):
            continue
        constants = constants_of(bases, [held.kept for held in group])
        errors, sizes = [], []
        for base, held in zip(bases, group, strict=True):
            nothing = base.seconds_from_common_start(4)
            for size, measured in zip(held.out.sizes_bytes, held.out.times_s, strict=True):
                whole = base.seconds_from_common_start(size)
                # t_0 of the formula: the model's time for next to no bytes.
                empty = np.array(min(nothing, whole))
                predicted = float(constants.seconds(empty, np.array(whole)))
                errors.append(predicted / measured - 1)
                sizes.append(size)
        residuals[f"{operation} by {backend}"] = Residuals.of(errors, "held-out rows", sizes)
    return residuals


def base_of(scenario: Scenario, table: Measured) -> Any:
    """Return a scenario's model for the table's operation on this node; None if there is none."""
    from dpsim.engine import resized
    from dpsim.strategy import StrategyConfig

    # These strategies cover the operations whose models can be refitted.
    kinds = [
        {"kind": "allreduce", "library": table.backend},
        {"kind": "sharded", "stage": 3},
    ]
    for aggregation in kinds:
        strategy = StrategyConfig.model_validate({"aggregation": aggregation})
        there = resized(
            scenario.model_copy(update={"strategy": strategy, "calibration": "catalogue"}),
            table.ranks,
            table.hosts,
        )
        found = calibrated(there).collectives
        if table.operation in found:
            return found[table.operation][0]
    return None


def _model(run: RunFile, scenario: Scenario) -> MeasuredModel:
    """Return the measured model, with a catalogue model's own layers.

    The time of torch's twin is divided among the catalogue's layers in the predicted proportions,
    as names and cuts differ.
    """
    precision = run.settings.precision
    name = run.settings.model
    model = scaled_to_concurrent_steps(measured_model(run), run).model_copy(
        update={"software": _software(run)}
    )
    if name in MODELS:
        return _divide_by_layers(model, name, scenario, precision)
    return model.model_copy(update={"precision": precision})


def _software(run: RunFile) -> dict[str, str]:
    settings = run.settings
    words = {"execution": settings.execution, "optimizer_kernels": settings.optimizer_kernels}
    # Models of tokens have only one layout.
    images = len(subject(settings).shape) == _IMAGE_DIMENSIONS
    return words | ({"memory_format": settings.memory_format} if images else {})


def _divide_by_layers(
    measured: MeasuredModel, name: str, scenario: Scenario, precision: str
) -> MeasuredModel:
    tables: dict[str, list[tuple[float, ...]]] = defaultdict(list)
    layers: tuple[str, ...] = ()
    tokens = None
    for index, batch in enumerate(measured.batch_sizes):
        workload = WorkloadConfig(model=name, batch_per_gpu=batch)
        job = calibrated(
            scenario.model_copy(update={"workload": workload, "calibration": "catalogue"})
        )
        layers = tuple(layer.name for layer in job.model.layers)
        tokens = job.model.tokens
        for way, predicted in (
            ("forward", job.times[0].forward),
            ("backward", job.times[0].backward),
        ):
            shares = predicted / predicted.sum()
            for bound in ("s", "low_s", "high_s"):
                whole = sum(getattr(measured, f"{way}_{bound}")[index])
                tables[f"{way}_{bound}"].append(tuple((shares * whole).tolist()))
    fields = {name: tuple(rows) for name, rows in tables.items()}
    changes = {"layers": layers, "precision": precision, "tokens": tokens, **fields}
    return MeasuredModel.model_validate({**measured.model_dump(), **changes})


def _beside(rows: Rows) -> Parameter | None:
    """Return the seconds per byte, from the largest all-reduce that computing could hide."""
    hidden = [row for row in rows if row["sent_s"] < row["alone_s"]]
    if not hidden:
        return None
    largest = max(hidden, key=lambda row: int(row["bytes"]))
    return Parameter(value=max(largest["lost_s"], 0.0) / (2 * largest["bytes"]), unit="s/B")


def _constants(rows: Rows, gpu: Gpu) -> dict[str, Parameter]:
    """Return the compute constants for which there are rows."""
    constants = {}
    peaks = {str(precision): peak.value for precision, peak in gpu.peak.items()}
    for kind, (precision, short) in product(("gemm", "conv"), _NAMES.items()):
        peak = peaks.get(precision)
        rates = [row for row in rows if (row["kind"], row["precision"]) == (kind, precision)]
        if rates and peak is not None:
            # Take the best rate of all sizes, since the model has a ramp for smaller products.
            fastest = max(row["flop_per_s"] for row in rates)
            constants[f"{_CLASSES[kind]}_{short}"] = Parameter(value=fastest / peak, unit="1")
    for row in rows:
        if row["kind"] == "memory":
            reached = row["rate_Bps"] / gpu.memory_bandwidth.value
            constants["memory"] = Parameter(value=reached, unit="1")
        if row["kind"] == "launch":
            constants["launch"] = Parameter(value=row["time_s"], unit="s")
    return constants


class Copies(NamedTuple):
    """Copies of ``nbytes``: the seconds of each repetition."""

    nbytes: int
    times_s: tuple[float, ...]


def copies_of(run: RunFile) -> list[Copies]:
    """Return the copies of one rank alone from or to pinned memory, in both directions."""
    # Ranks that copy at once share the host's memory; pageable memory is copied twice.
    one_rank = (row for row in run.of("copies") if row.get("at_once", 1) == 1)
    rows = (row for row in one_rank if row["memory"] == "pinned" and row["bytes"])
    return [Copies(row["bytes"], tuple(row["times_s"])) for row in rows]


def fit_copies(copies: Sequence[Copies]) -> dict[str, Parameter]:
    """Fit ``copy_latency`` and ``copy_rate``, T = latency + S / rate.

    Raises DpsimError for fewer than three sizes.
    """
    sizes = {one.nbytes for one in copies}
    if len(sizes) < _FEWEST_SIZES:
        rule = f"runs must have copies of at least {_FEWEST_SIZES} sizes"
        raise DpsimError(f"{rule}, but have {len(sizes)}")
    nbytes = np.array([float(one.nbytes) for one in copies])
    lines = fit_lines(nbytes, [one.times_s for one in copies])
    return {
        "copy_latency": parameter(lines[:, 0], "s"),
        "copy_rate": parameter(1 / lines[:, 1], "B/s"),
    }
