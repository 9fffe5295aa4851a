"""Rows of vtrain_steptime.csv as scenarios: GPT by Megatron-DeepSpeed inside one node."""

from __future__ import annotations

import math
from typing import Any

from validate.published.tables.csv_file import NotPredictedError, Row
from validate.published.tables.machines import cluster_of, gpu_in
from validate.published.tables.model_configs import Sizes, config_file
from validate.published.tables.packaged import constants_file
from validate.published.tables.published_step import PublishedStep, StepTable, published_step
from validate.published.tables.training import known_words, software_in

CONFIGURATION = (
    "gpus", "global_batch", "micro_batch", "hidden_size", "attention_heads", "layers",
    "sequence_length", "tensor_parallelism", "data_parallelism", "pipeline_parallelism",
)  # fmt: skip
REQUIRED = (*CONFIGURATION, "iteration_time_ms")
SETTINGS = "step_tables/vtrain.yaml"


def read(row: Row) -> PublishedStep:
    """Return the row; raises NotPredictedError for tensor and pipeline parallelism."""
    if row.count("tensor_parallelism") * row.count("pipeline_parallelism") > 1:
        raise NotPredictedError("tensor or pipeline parallelism")
    ranks, batch = row.count("data_parallelism"), row.count("micro_batch")
    passes = math.ceil(row.count("global_batch") / (ranks * batch))
    settings, sizes = constants_file(SETTINGS), _sizes(row)
    gpu, software = gpu_in(settings["gpu"]), software_in(row.joined("source"))
    config, text = config_file(sizes, gated=False)
    workload: dict[str, Any] = {
        "model": {"config": config},
        "sequence_length": sizes.positions,
        "batch_per_gpu": batch,
        "gradient_accumulation": passes,
        "precision": settings["precision"],
        "optimizer": settings["optimizer"],
    }
    return published_step(
        row,
        name=f"GPT, {sizes.layers} layers of {sizes.hidden}, on {ranks} GPUs",
        cluster=cluster_of(gpu, _placement(ranks)),
        workload=workload | known_words(software),
        strategy=settings["strategy"],
        checkpoints=settings["checkpoints"],
        measured=row.positive("iteration_time_ms") * 1e-3,
        groups=(f"hidden_size {sizes.hidden}", f"gpus {ranks}"),
        series=" ".join(row.key(("hidden_size", "layers", "attention_heads", "sequence_length"))),
        files={config: text},
        software=software,
    )


def _sizes(row: Row) -> Sizes:
    width, heads = row.count("hidden_size"), row.count("attention_heads")
    vocabulary, length = constants_file(SETTINGS)["vocabulary"], row.count("sequence_length")
    return Sizes(row.count("layers"), width, heads, heads, 4 * width, vocabulary, length)


def _placement(ranks: int) -> tuple[int, ...]:
    """Return full nodes of eight GPUs, or one partly filled node."""
    if ranks % 8 and ranks > 8:
        raise NotPredictedError(f"uneven nodes: {ranks} GPUs on nodes of 8")
    return (ranks,) if ranks <= 8 else (8,) * (ranks // 8)


STEP_TABLE = StepTable(REQUIRED, CONFIGURATION, lambda rows: read, plans=True)
