"""Rows of steps_2.csv as scenarios: training steps of several publishers, and their peak memory."""

from __future__ import annotations

from typing import Any

from validate.published.tables import (
    NotPredictedError,
    PublishedStep,
    Row,
    by_quality,
    cards_in,
    cluster_of,
    constants_file,
    even_placement,
    gpu_in,
    known_words,
    model_in,
    optimizer_in,
    precision_in,
    software_in,
)

REQUIRED = (
    "row_id", "publisher", "series", "gpu", "gpus", "nodes", "network", "framework", "model",
    "sequence_length", "per_gpu_batch", "gradient_accumulation", "precision", "parallelism",
    "checkpointing", "execution", "step_time_ms", "quality",
)  # fmt: skip
IDENTITY = tuple(name for name in REQUIRED if name not in ("row_id", "step_time_ms"))
SETTINGS = "steps/settings.yaml"


def read(row: Row) -> PublishedStep:
    """The row; raises NotPredictedError for what is not stated, or not in the catalogue."""
    ranks, nodes = row.whole("gpus"), row.whole("nodes")
    gpu, placement = gpu_in(row.text("gpu")), even_placement(ranks, nodes)
    software = software_in(row.said("publisher", "source", "framework", "precision", "notes"))
    software["execution"] = row.text("execution")
    measured = row.stated("step_time_ms") * 1e-3
    workload = _workload(row) | {"precision": precision_in(row.text("precision"), gpu)}
    memory = row.number("peak_memory_gb")
    status, reason = by_quality(row.text("quality"))
    return PublishedStep(
        row=row,
        scenario={
            "name": row.text("row_id"),
            "cluster": cluster_of(gpu, placement, cards_in(row.text("network"), gpu, placement[0])),
            "workload": workload | known_words(software),
            "strategy": _strategy(row.text("parallelism")),
        },
        measured=measured,
        gpus=ranks,
        work=workload["batch_per_gpu"] * workload["gradient_accumulation"],
        groups=tuple(f"{name} {row.text(name)}" for name in ("publisher", "gpu", "model", "gpus")),
        status=status,
        reason=reason,
        series=row.text("series"),
        software=software,
        memory=None if memory is None else memory * 1e9,
    )


def _workload(row: Row) -> dict[str, Any]:
    """What each GPU computes, but for words of its software."""
    model, checkpoints = model_in(row.text("model")), constants_file(SETTINGS)["checkpoints"]
    if row.text("checkpointing") not in checkpoints:
        raise NotPredictedError(f"checkpointing not known: {row.text('checkpointing')}")
    length = row.number("sequence_length")
    return {
        "model": model["model"],
        **({} if length is None else {"sequence_length": int(length)}),
        "batch_per_gpu": row.whole("per_gpu_batch"),
        "gradient_accumulation": row.whole("gradient_accumulation"),
        "optimizer": optimizer_in(row.said("framework", "notes"), model),
        "checkpoint": checkpoints[row.text("checkpointing")],
    }


def _strategy(parallelism: str) -> dict[str, Any]:
    known: dict[str, dict[str, Any]] = constants_file(SETTINGS)["strategies"]
    if parallelism not in known:
        raise NotPredictedError(f"parallelism not known: {parallelism}")
    return known[parallelism]
