"""Rows of scaling.csv as scenarios: data-parallel training on one GPU to some hundred."""

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

IDENTITY = (
    "case_id", "system", "model", "sync", "gpu", "gpus", "nodes", "intra_link", "network",
    "per_gpu_batch", "grad_accum", "seq_len", "precision", "quality",
)  # fmt: skip
REQUIRED = (
    "case_id", "system", "model", "gpu", "gpus", "nodes", "intra_link", "network", "precision",
)  # fmt: skip
SETTINGS = "scaling/settings.yaml"
_NO_NETWORK = ("", "none")


def read(row: Row, *, usual_batch: int | None = None) -> PublishedStep:
    """The row; ``usual_batch`` is that of rows which state none.

    Raises NotPredictedError for what is not stated, and what dpsim has no word for.
    """
    ranks, workload = row.whole("gpus"), _workload(row, usual_batch)
    gpu, placement = gpu_in(row.text("gpu")), even_placement(ranks, _nodes(row, ranks))
    network = row.text("network")
    cards = {} if network in _NO_NETWORK else cards_in(network, gpu, placement[0])
    software = software_in(row.said("system", "source", "precision", "notes"))
    status, reason = by_quality(row.text("quality"))
    work = workload["batch_per_gpu"] * workload["gradient_accumulation"]
    return PublishedStep(
        row=row,
        scenario={
            "name": row.text("case_id") or f"row {row.ordinal}",
            "cluster": cluster_of(gpu, placement, cards, row.text("intra_link")),
            "workload": {
                **workload,
                "precision": precision_in(row.text("precision"), gpu),
                **known_words(software),
            },
            "strategy": strategy_of(row),
        },
        measured=stated_step(row, ranks, work),
        gpus=ranks,
        work=work,
        groups=(f"system {row.text('system')}", f"model {row.text('model')}", f"gpus {ranks}"),
        status=status,
        reason=reason,
        series=" ".join(map(row.text, ("case_id", "model", "precision"))),
        software=software,
    )


def strategy_of(row: Row) -> dict[str, Any]:
    """How gradients meet; raises NotPredictedError where dpsim has no such way."""
    said = row.said("system", "sync", "notes").casefold()
    settings = constants_file(SETTINGS)
    entry = next(
        entry for entry in settings["strategies"] if any(word in said for word in entry["words"])
    )
    if "refused" in entry:
        raise NotPredictedError(entry["refused"])
    found = {name: value for name, value in entry.items() if name != "words"}
    # Mixed precision (amp) has gradients in fp32; who says fp16 sends them so.
    return found | settings["half"] if row.text("precision") == "fp16" else found


def stated_step(row: Row, ranks: int, work: int) -> float:
    """Seconds of the step as stated, or by the throughput of all GPUs."""
    step = row.number("step_time_ms")
    if step is not None:
        return step * 1e-3
    if row.text("unit").startswith("tokens"):
        raise NotPredictedError("tokens per second without the tokens of a batch")
    return work * ranks / row.stated("throughput")


def _nodes(row: Row, ranks: int) -> int:
    stated = row.number("nodes")
    if stated is not None:
        return int(stated)
    usual: int = constants_file(SETTINGS)["usual_node"]
    return 1 if row.text("network") in _NO_NETWORK else max(ranks // usual, 1)


def _workload(row: Row, usual_batch: int | None) -> dict[str, Any]:
    """What each GPU computes, but for words of its software."""
    model, length = model_in(row.text("model")), row.number("seq_len")
    length = length or model.get("sequence_length")
    if length == 1:
        raise NotPredictedError("batch in tokens, and no length of a sentence is stated")
    unknown = usual_batch is not None and row.number("per_gpu_batch") is None
    return {
        "model": model["model"],
        **({} if length is None else {"sequence_length": int(length)}),
        "batch_per_gpu": usual_batch if unknown else row.whole("per_gpu_batch"),
        "gradient_accumulation": int(row.number("grad_accum") or 1),
        "optimizer": optimizer_in(row.said("system", "model"), model),
    }
