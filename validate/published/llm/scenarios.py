"""Rows of the table as scenarios of dpsim, which its engine simulates like any other."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import NormalDist
from typing import Any

from dpsim.engine import memory_use
from dpsim.scenario import Scenario
from validate.published.llm.rows import SETTINGS, LlmRow, NotSimulatedError
from validate.published.tables import constants_file, scenario_of_row

_HALF, _ELEMENT = 2, 4


def scenario_of(row: LlmRow, folder: Path) -> Scenario:
    """The scenario of a row; its model's configuration is written into ``folder``.

    Raises NotSimulatedError where dpsim has no word for what the row says.
    """
    checkpoints = constants_file(SETTINGS)["checkpoints"]
    if row.checkpoint not in checkpoints:
        raise NotSimulatedError(f"checkpointing not stated: {row.checkpoint!r}")
    meant = checkpoints[row.checkpoint]
    tried = meant if isinstance(meant, list) else [meant]
    # Where a source does not say how many layers it computes again: the fewest that leave room.
    for checkpoint in tried[:-1]:
        scenario = _scenario(row, folder, checkpoint)
        if memory_use(scenario).fits:
            return scenario
    return _scenario(row, folder, tried[-1])


def _scenario(row: LlmRow, folder: Path, checkpoint: Any) -> Scenario:
    return scenario_of_row(
        {
            "name": row.row_id,
            "cluster": _cluster(row),
            "workload": _workload(row, folder, checkpoint),
            "strategy": _strategy(row),
            "disturbance": {"slow": _slowest(row)},
            "run": {"steps": 1, "warmup": 0, "allow_out_of_memory": True},
        }
    )


def assumed_network(row: LlmRow) -> str:
    """The network cards that are taken for a row, in words."""
    nics = _nics(row)
    stated = "stated" if row.nic_gbps else "not stated"
    return f"{nics['count']} x {nics['nic']} ({stated})"


def by_words(row: LlmRow, table: str) -> dict[str, Any] | None:
    """The first entry of a table of the settings whose words the row says; None without."""
    entries: list[dict[str, Any]] = constants_file(SETTINGS)[table]
    return next((entry for entry in entries if entry["words"] in row.said), None)


def _cluster(row: LlmRow) -> dict[str, Any]:
    nodes = constants_file(SETTINGS)["nodes"]
    nics = _nics(row)
    return {
        "nodes": row.nodes,
        "node": nodes.get(row.gpu.architecture, nodes["other"]),
        "gpu": row.gpu.name,
        "gpus_per_node": row.gpus_per_node,
        "network": {
            "fabric": "single-switch",
            "nic": nics["nic"],
            "nics_per_node": nics["count"],
        },
    }


def _nics(row: LlmRow) -> dict[str, Any]:
    known = constants_file(SETTINGS)["networks"]
    if row.nic_gbps is None:
        taken: dict[str, Any] = known["not_stated"].get(
            row.gpu.architecture, known["not_stated"]["other"]
        )
        return taken
    # Rates that a table of the settings names have their own cards; others as many of one kind.
    each = known["each"]
    cards = {"nic": each["nic"], "count": max(round(row.nic_gbps / each["rate"]), 1)}
    found: dict[str, Any] = known.get(str(round(row.nic_gbps)), cards)
    return found


def _workload(row: LlmRow, folder: Path, checkpoint: Any) -> dict[str, Any]:
    kernels = by_words(row, "kernels")
    return {
        "model": {"config": str(_configuration(row, folder))},
        "sequence_length": row.seq_len,
        "attention": "flash" if row.flash else "unfused",
        "batch_per_gpu": row.micro_batch,
        "gradient_accumulation": row.passes,
        "precision": row.precision,
        "optimizer": "adamw",
        "checkpoint": checkpoint,
        "execution": "compile" if row.compiled else "eager",
        **({} if kernels is None else {"kernels": kernels["year"]}),
    }


def _configuration(row: LlmRow, folder: Path) -> Path:
    """A Hugging Face configuration of the row's sizes."""
    gated = any(name in row.model for name in constants_file(SETTINGS)["gated"])
    # One file for all rows of these sizes: what is read of it is kept.
    path = folder / f"{'llama' if gated else 'gpt2'}-{hash(_sizes(row)) & 0xFFFFFFFFFFFF:x}.json"
    if not path.exists():
        path.write_text(json.dumps(_llama(row) if gated else _gpt2(row)), encoding="utf-8")
    return path


def _sizes(row: LlmRow) -> tuple[int, ...]:
    return (
        row.layers, row.hidden, row.heads, row.kv_heads, row.ffn, row.vocab, row.seq_len,
    )  # fmt: skip


def _llama(row: LlmRow) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "num_hidden_layers": row.layers,
        "hidden_size": row.hidden,
        "num_attention_heads": row.heads,
        "num_key_value_heads": row.kv_heads,
        "intermediate_size": row.ffn,
        "vocab_size": row.vocab,
        "max_position_embeddings": row.seq_len,
    }


def _gpt2(row: LlmRow) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "n_layer": row.layers,
        "n_embd": row.hidden,
        "n_head": row.heads,
        "n_inner": row.ffn,
        "vocab_size": row.vocab,
        "n_positions": row.seq_len,
    }


def _strategy(row: LlmRow) -> dict[str, Any]:
    travel = by_words(row, "sharding") or {}
    width = _ELEMENT if travel["dtype"] == "fp32" else _HALF
    if row.sharding == "ddp":
        return {"aggregation": {"kind": "allreduce", "library": "nccl"}}
    # FSDP gathers and reduces block by block: what a unit must hold to end where a block does.
    block = (row.params - row.vocab * row.hidden) / row.layers
    stage = {"zero1": 1, "fsdp_grad_op": 2}.get(row.sharding, 3)
    group = _group(row)
    # What is gathered or reduced together goes once it holds this much. A twentieth less than a
    # mean block lets each block close one, whatever its norms and biases add or lack.
    unit = int(0.95 * _ELEMENT * block)
    bucket = travel.get("bucket_elements", int(0.95 * block)) * width
    return {
        "aggregation": {
            "kind": "sharded",
            "stage": stage,
            "weight_bytes": _HALF,
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


def _slowest(row: LlmRow) -> list[dict[str, Any]]:
    """The slowest GPU of all, against that of one node: steps of a node are what constants know."""
    expected = [_expected_maximum(gpus) for gpus in (row.gpus_per_node, row.gpus)]
    slower = constants_file(SETTINGS)["gpus_apart"] * (expected[1] - expected[0])
    return [{"workers": [0], "factor": 1 + slower}] if slower else []


def _expected_maximum(draws: int) -> float:
    """Of so many normal draws, in standard deviations of one (Blom 1958)."""
    return NormalDist().inv_cdf((draws - 0.375) / (draws + 0.25))


def _group(row: LlmRow) -> str | int:
    """The shard group: all, node, or a number of workers; not stated, what the sharding means."""
    stated = row.shard_group or ("node" if row.sharding == "hsdp" else "all")
    if stated in ("node", "all"):
        return stated if row.nodes > 1 else "all"
    if row.shard_group.isdecimal():
        return int(row.shard_group)
    raise NotSimulatedError(f"shard group not known: {row.shard_group!r}")
