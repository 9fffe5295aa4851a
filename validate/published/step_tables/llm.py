"""Rows of llm_fsdp.csv as scenarios: language models by DDP, FSDP, HSDP and ZeRO."""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist
from typing import Any

from dpsim.hardware import Gpu
from validate.published.tables.csv_file import NotPredictedError, Row
from validate.published.tables.machines import cards_together, cluster_of, even_placement, gpu_in
from validate.published.tables.model_configs import Sizes, config_file
from validate.published.tables.packaged import constants_file
from validate.published.tables.published_step import (
    PublishedStep,
    StepTable,
    published_step,
    smallest_runs,
)

REQUIRED = (
    "row_id", "case_id", "source", "model", "params", "layers", "hidden", "heads", "kv_heads",
    "ffn", "vocab", "seq_len", "gpu", "gpus", "gpus_per_node", "precision", "sharding",
    "shard_group", "act_ckpt", "micro_batch", "grad_accum", "step_time_s", "quality",
)  # fmt: skip
IDENTITY = (
    "case_id", "source", "model", "gpu", "gpus", "seq_len", "precision", "sharding",
    "shard_group", "act_ckpt", "micro_batch", "grad_accum", "quality",
)  # fmt: skip
TABLE = "llm_fsdp.csv"
SETTINGS = "step_tables/llm.yaml"
SHARDINGS = ("ddp", "zero1", "zero3", "fsdp_full", "fsdp_grad_op", "hsdp")
_HALF_BYTES, _FLOAT_BYTES = 2, 4
_SIZES = ((1e9, "below 1 G"), (5e9, "1 to 5 G"), (15e9, "5 to 15 G"))  # parameters


def read(row: Row) -> PublishedStep:
    """Return the row as a step; raises NotPredictedError if dpsim cannot express it."""
    found = step_of_row(row)
    if math.isnan(found.measured):
        raise NotPredictedError("step time not stated")
    return found


def step_of_row(row: Row) -> PublishedStep:
    """Return the row as a scenario; the measured time is NaN where no step is stated."""
    gpu, placement = _gpu(row), _placement(row)
    gated = any(name in row.text("model") for name in constants_file(SETTINGS)["gated"])
    config, text = config_file(_sizes(row), gated=gated)
    workload = _workload(row, config)
    cards = cards_together(row.number("nic_gbps_per_node"))
    network = "the machine's own (not stated)"
    if cards:
        network = f"{cards['nics_per_node']} x {cards['nic']} (stated)"
    memory = row.number("mem_gb_per_gpu")
    return published_step(
        row,
        name=row.row_id,
        cluster=cluster_of(gpu, placement, cards),
        workload=workload,
        strategy=_strategy(row, len(placement)),
        beside={"disturbance": {"slow": _slowest(placement)}},
        checkpoints=_checkpoints(row),
        measured=row.number("step_time_s") or math.nan,
        work=row.whole("micro_batch") * row.whole("grad_accum") * row.whole("seq_len"),
        groups=tuple(_groups(row, gpu, len(placement))),
        series=row.text("case_id"),
        files={config: text},
        memory=None if memory is None else memory * 1e9,
        shown={"network": network},
    )


def group_of(row: Row) -> str:
    """Return the group left out of the fit of constants that predicts this row."""
    source, year = row.text("source"), row.number("year") or 0
    recent = "MosaicML" in source and year >= 2023 and row.text("precision") == "bf16"
    return f"llm model {row.text('model')}" if recent else f"llm {source}"


def _gpu(row: Row) -> Gpu:
    """Return the catalogue's GPU."""
    gpu = gpu_in(row.text("gpu"))
    if gpu.architecture == "tpu":
        of = f"of {gpu.architecture} no language model was measured"
        raise NotPredictedError(f"no such hardware: {of} ({row.text('gpu')})")
    return gpu


def _placement(row: Row) -> tuple[int, ...]:
    for name in ("tp", "pp", "cp"):
        if row.text(name) not in ("", "1", "1.0"):
            raise NotPredictedError(f"model_parallel: {name} is {row.text(name)}")
    ranks = row.whole("gpus")
    per_node = min(row.whole("gpus_per_node"), ranks)
    if ranks % per_node:
        raise NotPredictedError("nodes unevenly filled")
    return even_placement(ranks, ranks // per_node)


def _checkpoints(row: Row) -> list[Any]:
    """Return the checkpointing; if unstated, candidates in ascending number of layers."""
    known, text = constants_file(SETTINGS)["checkpoints"], row.text("act_ckpt")
    if text not in known:
        raise NotPredictedError(f"checkpointing not stated: {text!r}")
    return known[text] if isinstance(known[text], list) else [known[text]]


def _by_words(row: Row, table: str) -> dict[str, Any]:
    """Return the first entry of a settings table whose words are in the row; empty if none."""
    text = row.joined("source", "framework", "note")
    entries: list[dict[str, Any]] = constants_file(SETTINGS)[table]
    return next((entry for entry in entries if entry["words"] in text), {})


def _workload(row: Row, config: str) -> dict[str, Any]:
    kernels = _by_words(row, "kernels")
    return {
        "model": {"config": config},
        "sequence_length": row.whole("seq_len"),
        "attention": "unfused" if "plain" in row.text("attention") else "flash",
        "batch_per_gpu": row.whole("micro_batch"),
        "gradient_accumulation": row.whole("grad_accum"),
        "precision": row.text("precision"),
        "optimizer": "adamw",
        "execution": "compile" if row.text("compiled") in ("1", "1.0") else "eager",
        **{name: value for name, value in kernels.items() if name != "words"},
    }


def _sizes(row: Row) -> Sizes:
    heads = row.whole("heads")
    kv_heads = int(row.number("kv_heads") or heads)
    ends = (row.whole("ffn"), row.whole("vocab"), row.whole("seq_len"))
    return Sizes(row.whole("layers"), row.whole("hidden"), heads, kv_heads, *ends)


def _strategy(row: Row, nodes: int) -> dict[str, Any]:
    travel = _by_words(row, "sharding")
    width = _FLOAT_BYTES if travel["dtype"] == "fp32" else _HALF_BYTES
    sharding = row.text("sharding")
    if sharding not in SHARDINGS:
        raise NotPredictedError(f"sharding not known: {sharding!r}")
    if sharding == "ddp":
        return {"aggregation": {"kind": "allreduce", "library": "nccl"}}
    # FSDP gathers and reduces block by block, so a unit must hold one block's parameters.
    embedding = row.whole("vocab") * row.whole("hidden")
    block = (row.whole("params") - embedding) / row.whole("layers")
    stage = {"zero1": 1, "fsdp_grad_op": 2}.get(sharding, 3)
    group = _group(row, nodes)
    # A unit is gathered or reduced once it holds this much. A twentieth less than a mean block lets
    # each block close one, despite differences in norms and biases.
    unit = int(0.95 * _FLOAT_BYTES * block)
    bucket = travel.get("bucket_elements", int(0.95 * block)) * width
    return {
        "aggregation": {
            "kind": "sharded",
            "stage": stage,
            "weight_bytes": _HALF_BYTES,
            "unit_size": f"{unit} B",
            "shard_group": group,
            "gradients": {
                "dtype": travel["dtype"],
                "collective": travel.get("collective", "reduce-scatter"),
                "sync_each_pass": travel["sync_each_pass"],
            },
            "backward_prefetch": travel["backward_prefetch"],
            "owners": travel.get("owners", "slices"),
            "library": "nccl",
        },
        "overlap": {"kind": "buckets", "bucket_size": f"{bucket} B", "first_bucket": f"{bucket} B"},
    }


def _slowest(placement: tuple[int, ...]) -> list[dict[str, Any]]:
    """Return the slow-down of the slowest of all GPUs over the slowest of one node.

    The constants are fitted to steps of one node.
    """
    expected = [_expected_maximum(gpus) for gpus in (placement[0], sum(placement))]
    slower = constants_file(SETTINGS)["gpus_apart"] * (expected[1] - expected[0])
    return [{"workers": [0], "factor": 1 + slower}] if slower else []


def _expected_maximum(draws: int) -> float:
    """Return the expected maximum of normal draws, in standard deviations (Blom 1958)."""
    return NormalDist().inv_cdf((draws - 0.375) / (draws + 0.25))


def _group(row: Row, nodes: int) -> str | int:
    """Return the shard group (all, node, or a number of workers), else the sharding's usual."""
    text = row.text("shard_group")
    stated = text or ("node" if row.text("sharding") == "hsdp" else "all")
    if stated in ("node", "all"):
        return stated if nodes > 1 else "all"
    if text.isdecimal():
        return int(text)
    raise NotPredictedError(f"shard group not known: {text!r}")


def _groups(row: Row, gpu: Gpu, nodes: int) -> Iterator[str]:
    params = row.whole("params")
    size = next((name for most, name in _SIZES if params < most), "15 G and more")
    yield f"source {row.text('source')}"
    yield f"gpu {gpu.name}"
    yield f"parameters {size}"
    yield f"checkpointing {row.text('act_ckpt')}"
    yield f"gpus {row.whole('gpus')}"
    yield f"precision {row.text('precision')}"
    yield "beyond one node" if nodes > 1 else "one node"


STEP_TABLE = StepTable(
    REQUIRED, IDENTITY, lambda rows: read, smallest_runs, fitted=TABLE, group=group_of
)
