"""Rows of single_gpu.csv as scenarios: training on one GPU."""

from __future__ import annotations

import re

from validate.published.tables.csv_file import NotPredictedError, Row
from validate.published.tables.machines import cluster_of, gpu_in
from validate.published.tables.published_step import PublishedStep, StepTable, published_step
from validate.published.tables.training import software_in, stated_step, workload_of

REQUIRED = ("gpu", "model", "framework", "precision", "mode", "batch")
CONFIGURATION = ("case_id", "gpu", "model", "framework", "precision", "mode", "batch", "seq_len")
IDENTITY = (*CONFIGURATION, "quality")
_PASSES = re.compile(r"accumulation (\d+)(?:\.0)? micro batches")


def read(row: Row) -> PublishedStep:
    """Return the row; raises NotPredictedError for inference, and for what the catalogue lacks."""
    if row.text("mode") != "train":
        raise NotPredictedError(f"no training: {row.text('mode')}")
    gpu, batch = gpu_in(row.text("gpu")), row.whole("batch")
    text = row.joined("framework", "source", "model", "precision")
    software = software_in(text)
    # A row may be the time of one of several passes, which share an update.
    found = _PASSES.search(row.text("notes"))
    passes = int(found[1]) if found else 1
    return published_step(
        row,
        name=row.text("case_id") or f"row {row.ordinal}",
        cluster=cluster_of(gpu, (1,)),
        workload=workload_of(row, gpu, software, batch, passes, text),
        strategy={},
        measured=stated_step(row, batch) * passes,
        groups=tuple(f"{name} {row.text(name)}" for name in ("model", "gpu", "framework")),
        software=software,
    )


def group_of(row: Row) -> str:
    """Return the group left out of the fit of constants that predicts this row.

    The group is the publisher: the first two words of a source (the site and the author).
    """
    return " ".join(["single-gpu", *row.text("source").split()[:2]])


STEP_TABLE = StepTable(
    REQUIRED, IDENTITY, lambda rows: read, fitted="single_gpu.csv", group=group_of
)
