"""Rows of mlperf_training.csv as scenarios: submissions to MLPerf Training, v0.5 to v5.1."""

from __future__ import annotations

from typing import Any

from validate.published.tables import (
    NotPredictedError,
    PublishedStep,
    Row,
    by_quality,
    cards_by_kind,
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
    "row_id", "round", "submitter", "system", "gpu", "gpus_per_node", "nodes", "gpus", "nic_kind",
    "nic_gbit", "nic_count", "framework", "benchmark", "parallelism", "model", "precision",
    "global_batch", "per_gpu_batch", "accumulation", "step_time_ms", "knobs", "quality",
)  # fmt: skip
IDENTITY = tuple(name for name in REQUIRED if name not in ("row_id", "step_time_ms"))
SERIES = ("submitter", "round", "gpu", "benchmark")
SETTINGS = "mlperf/settings.yaml"


def read(row: Row) -> PublishedStep:
    """The row; raises NotPredictedError for what is not data parallel, or not in the catalogue."""
    if not _is_data_parallel(row):
        said = row.text("parallelism") or "not stated"
        raise NotPredictedError(f"parallelism: {said}")
    gpu, ranks = gpu_in(row.text("gpu")), row.whole("gpus")
    placement = even_placement(ranks, row.whole("nodes"))
    gbit, count = row.number("nic_gbit"), row.number("nic_count")
    cards = cards_by_kind(row.text("nic_kind"), gbit, count, placement[0])
    workload, software = _workload(row), _software(row)
    precision = precision_in(row.text("precision"), gpu)
    compression = (
        constants_file(SETTINGS)["compression"] if precision != "fp32" else {"kind": "none"}
    )
    status, reason = by_quality(row.text("quality"))
    return PublishedStep(
        row=row,
        scenario={
            "name": row.text("row_id"),
            "cluster": cluster_of(gpu, placement, cards if len(placement) > 1 else {}),
            "workload": {**workload, "precision": precision, **known_words(software)},
            "strategy": {"compression": compression},
        },
        measured=row.stated("step_time_ms") * 1e-3,
        gpus=ranks,
        work=workload["batch_per_gpu"] * workload["gradient_accumulation"],
        groups=_groups(row, ranks),
        status=status,
        reason=reason,
        series=" ".join(map(row.text, SERIES)),
        software=software,
    )


def _is_data_parallel(row: Row) -> bool:
    settings, said = constants_file(SETTINGS), row.text("parallelism")
    if not said and row.text("benchmark") in settings["by_samples"]:
        return row.stated("per_gpu_batch") >= 1
    return said in settings["data_parallel"]


def _workload(row: Row) -> dict[str, Any]:
    """What each GPU computes, but for words of its software."""
    settings, benchmark = constants_file(SETTINGS), row.text("benchmark")
    model, length = model_in(row.text("model")), settings["lengths"].get(benchmark)
    named = f"{row.text('knobs')} {settings['optimizers'].get(benchmark, '')}"
    workload = {
        "model": model["model"],
        "batch_per_gpu": row.whole("per_gpu_batch"),
        "gradient_accumulation": int(row.number("accumulation") or 1),
        "optimizer": optimizer_in(named, model),
    }
    if length is None:
        return workload
    whole = not _padding_removed(row) or "padding" in known_words({"padding": None})
    return {**workload, "sequence_length": length["most" if whole else "mean"]}


def _software(row: Row) -> dict[str, Any]:
    """What the row says of its software."""
    said = f"mlperf {row.said('round', 'framework', 'knobs', 'precision')}"
    found = software_in(said)
    if _padding_removed(row):
        length = constants_file(SETTINGS)["lengths"][row.text("benchmark")]
        found["padding"] = {"removed": {"mean_length": length["mean"]}}
    return found


def _padding_removed(row: Row) -> bool:
    length = constants_file(SETTINGS)["lengths"].get(row.text("benchmark"), {})
    return "removed" in length and length["removed"] in row.text("knobs")


def _groups(row: Row, ranks: int) -> tuple[str, ...]:
    size = "128 GPUs and fewer" if ranks <= 128 else "above 128 GPUs"
    benchmark = row.text("benchmark")
    return (
        f"benchmark {benchmark}",
        f"gpu {row.text('gpu')}",
        f"round {row.text('round')}",
        f"submitter {row.text('submitter')}",
        size,
        f"{benchmark}, {size}",
    )
