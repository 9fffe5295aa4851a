"""Rows of single_gpu.csv as scenarios: training on one GPU."""

from __future__ import annotations

import re
from functools import cache

from validate.published.tables import (
    NotPredictedError,
    PublishedStep,
    Row,
    by_quality,
    cluster_of,
    gpu_in,
    known_words,
    model_in,
    optimizer_in,
    packaged_rows,
    precision_in,
    software_in,
)

REQUIRED = ("gpu", "model", "framework", "precision", "mode", "batch")
CONFIGURATION = ("case_id", "gpu", "model", "framework", "precision", "mode", "batch", "seq_len")
IDENTITY = (*CONFIGURATION, "quality")
_PASSES = re.compile(r"accumulation (\d+)(?:\.0)? micro batches")


def read(row: Row) -> PublishedStep:
    """The row; raises NotPredictedError for inference, and for what the catalogue lacks."""
    if row.text("mode") != "train":
        raise NotPredictedError(f"no training: {row.text('mode')}")
    model, gpu, batch = model_in(row.text("model")), gpu_in(row.text("gpu")), row.whole("batch")
    said = row.said("framework", "source", "model", "precision")
    software = software_in(said)
    # A row may be the time of one of several passes, which share an update.
    found = _PASSES.search(row.text("notes"))
    passes = int(found[1]) if found else 1
    length = row.number("seq_len") or model.get("sequence_length")
    if length == 1:
        raise NotPredictedError("batch in tokens, and no length of a sentence is stated")
    status, reason = by_quality(row.text("quality"))
    return PublishedStep(
        row=row,
        scenario={
            "name": row.text("case_id") or f"row {row.ordinal}",
            "cluster": cluster_of(gpu, (1,)),
            "workload": {
                "model": model["model"],
                **({"sequence_length": int(length)} if length else {}),
                "batch_per_gpu": batch,
                **({"gradient_accumulation": passes} if passes > 1 else {}),
                "precision": precision_in(row.text("precision"), gpu),
                "optimizer": optimizer_in(said, model),
                **known_words(software),
            },
        },
        measured=_seconds(row, batch) * passes,
        gpus=1,
        work=batch * passes,
        groups=tuple(f"{name} {row.text(name)}" for name in ("model", "gpu", "framework")),
        status=status,
        reason=reason,
        software=software,
        constants="shipped, fitted on this row too" if _is_fitted_on(row) else "shipped",
    )


def _is_fitted_on(row: Row) -> bool:
    """Whether the roofline's constants saw the same configuration."""
    return row.key(CONFIGURATION) in _fitted_on()


@cache
def _fitted_on() -> frozenset[tuple[str, ...]]:
    """The configurations of the public table whose quality is ok."""
    rows = packaged_rows("single_gpu.csv")
    return frozenset(row.key(CONFIGURATION) for row in rows if row.text("quality") == "ok")


def _seconds(row: Row, batch: int) -> float:
    """Measured seconds of a pass, by the throughput where no time is stated."""
    step = row.number("step_time_ms")
    if step is not None:
        return step * 1e-3
    if row.text("unit").startswith("tokens"):
        raise NotPredictedError("tokens per second without the tokens of a batch")
    return batch / row.stated("throughput")
