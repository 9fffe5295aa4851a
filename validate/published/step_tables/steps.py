"""Rows of steps_2.csv as scenarios: training steps of several publishers, and their peak memory."""

from __future__ import annotations

from typing import Any

from validate.published.tables.csv_file import NotPredictedError, Row
from validate.published.tables.machines import cards_in, cluster_of, even_placement, gpu_in
from validate.published.tables.packaged import constants_file
from validate.published.tables.published_step import (
    PublishedStep,
    StepTable,
    published_step,
    smallest_run,
)
from validate.published.tables.training import software_in, workload_of

REQUIRED = (
    "row_id", "publisher", "series", "gpu", "gpus", "nodes", "network", "framework", "model",
    "sequence_length", "per_gpu_batch", "gradient_accumulation", "precision", "parallelism",
    "checkpointing", "execution", "step_time_ms", "quality",
)  # fmt: skip
IDENTITY = tuple(name for name in REQUIRED if name not in ("row_id", "step_time_ms"))
SETTINGS = "step_tables/steps.yaml"


def read(row: Row) -> PublishedStep:
    """Return the row; raises NotPredictedError for missing values and what the catalogue lacks."""
    placement = even_placement(row.whole("gpus"), row.whole("nodes"))
    gpu = gpu_in(row.text("gpu"))
    memory_gb = row.number("peak_memory_gb")
    software = software_in(row.joined("publisher", "source", "framework", "precision", "notes"))
    software["execution"] = row.text("execution")
    workload = workload_of(
        row,
        gpu,
        software,
        batch=row.whole("per_gpu_batch"),
        passes=row.whole("gradient_accumulation"),
        optimizer_text=row.joined("framework", "notes"),
    )
    return published_step(
        row,
        name=row.text("row_id"),
        cluster=cluster_of(gpu, placement, cards_in(row.text("network"), gpu, placement[0])),
        workload={**workload, "checkpoint": _scenario_value(row, "checkpointing")},
        strategy=_scenario_value(row, "parallelism"),
        measured=row.stated("step_time_ms") * 1e-3,
        groups=tuple(f"{name} {row.text(name)}" for name in ("publisher", "gpu", "model", "gpus")),
        series=row.text("series"),
        software=software,
        memory=None if memory_gb is None else memory_gb * 1e9,
    )


def _scenario_value(row: Row, column: str) -> Any:
    """Return the scenario's value for the word in ``column``.

    Raises NotPredictedError if it is unknown.
    """
    known = constants_file(SETTINGS)[column]
    if row.text(column) not in known:
        raise NotPredictedError(f"{column} not known: {row.text(column)}")
    return known[row.text(column)]


STEP_TABLE = StepTable(
    REQUIRED,
    IDENTITY,
    reader=lambda rows: read,  # each row is read alone
    known=smallest_run,
    fitted="steps_2.csv",
    group=lambda row: f"steps {row.text('publisher')}",
)
