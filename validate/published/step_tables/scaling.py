"""Rows of scaling.csv as scenarios: data-parallel training on one GPU to some hundred."""

from __future__ import annotations

from typing import Any

from validate.published.tables.csv_file import NotPredictedError, Row
from validate.published.tables.machines import cards_in, cluster_of, even_placement, gpu_in
from validate.published.tables.packaged import constants_file
from validate.published.tables.published_step import PublishedStep, StepTable, published_step
from validate.published.tables.training import software_in, stated_step, workload_of

IDENTITY = (
    "case_id", "system", "model", "sync", "gpu", "gpus", "nodes", "intra_link", "network",
    "per_gpu_batch", "grad_accum", "seq_len", "precision", "quality",
)  # fmt: skip
REQUIRED = (
    "case_id", "system", "model", "gpu", "gpus", "nodes", "intra_link", "network", "precision",
)  # fmt: skip
SETTINGS = "step_tables/scaling.yaml"
_NO_NETWORK = ("", "none")


def read(row: Row, *, usual_batch: int | None = None) -> PublishedStep:
    """Return the row as a step; ``usual_batch`` is used for rows that state no batch.

    Raises NotPredictedError for missing values, and for what dpsim cannot express.
    """
    ranks, passes = row.whole("gpus"), int(row.number("grad_accum") or 1)
    unknown = usual_batch is not None and row.number("per_gpu_batch") is None
    batch = usual_batch if unknown else row.whole("per_gpu_batch")
    gpu, placement = gpu_in(row.text("gpu")), even_placement(ranks, _nodes(row, ranks))
    network = row.text("network")
    cards = {} if network in _NO_NETWORK else cards_in(network, gpu, placement[0])
    software = software_in(row.joined("system", "source", "precision", "notes"))
    text = row.joined("system", "model")
    return published_step(
        row,
        name=row.text("case_id") or f"row {row.ordinal}",
        cluster=cluster_of(gpu, placement, cards, row.text("intra_link")),
        workload=workload_of(row, gpu, software, batch or 1, passes, text),
        strategy=strategy_of(row),
        measured=stated_step(row, (batch or 1) * passes * ranks),
        groups=(f"system {row.text('system')}", f"model {row.text('model')}", f"gpus {ranks}"),
        series=" ".join(map(row.text, ("case_id", "model", "precision"))),
        software=software,
    )


def strategy_of(row: Row) -> dict[str, Any]:
    """Return the strategy of a row; raises NotPredictedError if dpsim has no such strategy."""
    text = row.joined("system", "sync", "notes").casefold()
    settings = constants_file(SETTINGS)
    entry = next(
        entry for entry in settings["strategies"] if any(word in text for word in entry["words"])
    )
    if "refused" in entry:
        raise NotPredictedError(entry["refused"])
    found = {name: value for name, value in entry.items() if name != "words"}
    # Mixed precision (amp) has gradients in fp32; fp16 also sends them in fp16.
    return found | settings["half"] if row.text("precision") == "fp16" else found


def _nodes(row: Row, ranks: int) -> int:
    stated = row.number("nodes")
    if stated is not None:
        return int(stated)
    usual: int = constants_file(SETTINGS)["usual_node"]
    return 1 if row.text("network") in _NO_NETWORK else max(ranks // usual, 1)


STEP_TABLE = StepTable(REQUIRED, IDENTITY, lambda rows: read, plans=True)
