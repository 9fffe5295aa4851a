"""Rows of single_gpu.csv as scenarios: training on one GPU."""

from __future__ import annotations

import re
from functools import cache

from validate.published.tables import (
    NotPredictedError,
    PublishedStep,
    Row,
    cluster_of,
    gpu_in,
    packaged_rows,
    published_step,
    software_in,
    stated_step,
    workload_of,
)

REQUIRED = ("gpu", "model", "framework", "precision", "mode", "batch")
CONFIGURATION = ("case_id", "gpu", "model", "framework", "precision", "mode", "batch", "seq_len")
IDENTITY = (*CONFIGURATION, "quality")
_PASSES = re.compile(r"accumulation (\d+)(?:\.0)? micro batches")


def read(row: Row) -> PublishedStep:
    """The row; raises NotPredictedError for inference, and for what the catalogue lacks."""
    if row.text("mode") != "train":
        raise NotPredictedError(f"no training: {row.text('mode')}")
    gpu, batch = gpu_in(row.text("gpu")), row.whole("batch")
    said = row.said("framework", "source", "model", "precision")
    software = software_in(said)
    # A row may be the time of one of several passes, which share an update.
    found = _PASSES.search(row.text("notes"))
    passes = int(found[1]) if found else 1
    return published_step(
        row,
        name=row.text("case_id") or f"row {row.ordinal}",
        cluster=cluster_of(gpu, (1,)),
        workload=workload_of(row, gpu, software, batch, passes, said),
        strategy={},
        measured=stated_step(row, batch) * passes,
        groups=tuple(f"{name} {row.text(name)}" for name in ("model", "gpu", "framework")),
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
