"""Rows of mlperf_training.csv as scenarios: submissions to MLPerf Training, v0.5 to v5.1."""

from __future__ import annotations

from typing import Any

from validate.published.tables.csv_file import NotPredictedError, Row
from validate.published.tables.machines import cards_by_kind, cluster_of, even_placement, gpu_in
from validate.published.tables.packaged import constants_file
from validate.published.tables.published_step import (
    PublishedStep,
    StepTable,
    published_step,
    smallest_run,
)
from validate.published.tables.training import known_words, software_in, workload_of

REQUIRED = (
    "row_id", "round", "submitter", "system", "gpu", "gpus_per_node", "nodes", "gpus", "nic_kind",
    "nic_gbit", "nic_count", "framework", "benchmark", "parallelism", "model", "precision",
    "global_batch", "per_gpu_batch", "accumulation", "step_time_ms", "knobs", "quality",
)  # fmt: skip
IDENTITY = tuple(name for name in REQUIRED if name not in ("row_id", "step_time_ms"))
SERIES = ("submitter", "round", "gpu", "benchmark")
SETTINGS = "step_tables/mlperf.yaml"


def read(row: Row) -> PublishedStep:
    """Return the row; raises NotPredictedError if not data-parallel or not in the catalogue."""
    if not _is_data_parallel(row):
        parallelism = row.text("parallelism") or "not stated"
        raise NotPredictedError(f"parallelism: {parallelism}")
    gpu, ranks = gpu_in(row.text("gpu")), row.whole("gpus")
    placement = even_placement(ranks, row.whole("nodes"))
    gbit, count = row.number("nic_gbit"), row.number("nic_count")
    cards = cards_by_kind(row.text("nic_kind"), gbit, count, placement[0])
    settings, software = constants_file(SETTINGS), _software(row)
    passes = int(row.number("accumulation") or 1)
    named = f"{row.text('knobs')} {settings['optimizers'].get(row.text('benchmark'), '')}"
    workload = workload_of(row, gpu, software, row.whole("per_gpu_batch"), passes, named)
    half = workload["precision"] != "fp32"
    return published_step(
        row,
        name=row.text("row_id"),
        cluster=cluster_of(gpu, placement, cards if len(placement) > 1 else {}),
        workload=workload | _length(row),
        strategy={"compression": settings["compression"]} if half else {},
        measured=row.stated("step_time_ms") * 1e-3,
        groups=_groups(row, ranks),
        series=" ".join(map(row.text, SERIES)),
        software=software,
    )


def _is_data_parallel(row: Row) -> bool:
    settings, parallelism = constants_file(SETTINGS), row.text("parallelism")
    if not parallelism and row.text("benchmark") in settings["by_samples"]:
        return row.stated("per_gpu_batch") >= 1
    return parallelism in settings["data_parallel"]


def _length(row: Row) -> dict[str, int]:
    """Return a sample's tokens, if any: the mean if padding is removed but no field says so."""
    length = constants_file(SETTINGS)["lengths"].get(row.text("benchmark"))
    if length is None:
        return {}
    whole = not _padding_removed(row) or "padding" in known_words({"padding": None})
    return {"sequence_length": length["most" if whole else "mean"]}


def _software(row: Row) -> dict[str, Any]:
    """Return the software that the row states."""
    text = f"mlperf {row.joined('round', 'framework', 'knobs', 'precision')}"
    found = software_in(text)
    if _padding_removed(row):
        length = constants_file(SETTINGS)["lengths"][row.text("benchmark")]
        found["padding"] = {"removed": {"mean_length": length["mean"]}}
    return found


def _padding_removed(row: Row) -> bool:
    length = constants_file(SETTINGS)["lengths"].get(row.text("benchmark"), {})
    return "removed" in length and length["removed"] in row.text("knobs")


def _groups(row: Row, ranks: int) -> tuple[str, ...]:
    size = "128 GPUs and fewer" if ranks <= 128 else "above 128 GPUs"
    of = [f"{name} {row.text(name)}" for name in ("benchmark", "gpu", "round", "submitter")]
    return (*of, size, f"{row.text('benchmark')}, {size}")


STEP_TABLE = StepTable(
    REQUIRED,
    IDENTITY,
    lambda rows: read,
    smallest_run,
    fitted="mlperf_training.csv",
    group=lambda row: f"mlperf {row.text('submitter')}",
)
