"""Rows of the table as scenarios of dpsim, which its engine simulates like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from statistics import NormalDist
from typing import Any

from dpsim.scenario import Scenario
from validate.published.llm.left_out import group_of, profile_without
from validate.published.llm.rows import SETTINGS, LlmRow, read_row
from validate.published.tables import (
    NotPredictedError,
    PublishedStep,
    Row,
    ScenarioFolder,
    Sizes,
    by_quality,
    cards_together,
    cluster_of,
    config_file,
    constants_file,
    even_placement,
)

_HALF, _ELEMENT = 2, 4
_NEWEST = "2024"  # kernels where a row does not tell their year
_SIZES = ((1e9, "below 1 G"), (5e9, "1 to 5 G"), (15e9, "5 to 15 G"))  # parameters


def read(row: Row) -> PublishedStep:
    """The row; raises NotPredictedError where dpsim has no word for what it says."""
    found = read_row(row)
    if found.measured is None:
        raise NotPredictedError("step time not stated")
    return published(found)


def published(row: LlmRow) -> PublishedStep:
    """The row as a scenario, by constants that did not see it."""
    gated = any(name in row.model for name in constants_file(SETTINGS)["gated"])
    config, text = config_file(_sizes(row), gated=gated)
    workload = _workload(row, config)
    files, calibration, words = {config: text}, {}, "shipped"
    profile = profile_without(row, workload["execution"], workload.get("kernels", _NEWEST))
    if profile is not None:
        name, content = profile
        files[name], calibration = content, {"calibration": name}
        words = f"shipped, without {group_of(row)}"
    status, reason = by_quality(row.quality)
    return PublishedStep(
        row=row.row,
        scenario={
            "name": row.row.row_id,
            "cluster": cluster_of(
                row.gpu, even_placement(row.gpus, row.nodes), cards_together(row.nic_gbps)
            ),
            "workload": workload,
            "strategy": _strategy(row),
            "disturbance": {"slow": _slowest(row)},
            **calibration,
        },
        checkpoints=_checkpoints(row),
        measured=row.measured or 0.0,
        gpus=row.gpus,
        work=row.tokens_per_gpu,
        groups=tuple(_groups(row)),
        status=status,
        reason=reason,
        series=row.case_id,
        files=files,
        constants=words,
        memory=None if row.memory_gb is None else row.memory_gb * 1e9,
        shown={"network": assumed_network(row)},
    )


def scenario_of(row: LlmRow, folder: Path) -> Scenario:
    """The scenario of a row; the files that it names are written into ``folder``."""
    place = ScenarioFolder(folder, keeps=False)
    return place.scenario(place.fitting(published(row)))


def assumed_network(row: LlmRow) -> str:
    """The network cards that are taken for a row, in words."""
    cards = cards_together(row.nic_gbps)
    if not cards:
        return "the machine's own (not stated)"
    return f"{cards['nics_per_node']} x {cards['nic']} (stated)"


def _checkpoints(row: LlmRow) -> list[Any]:
    """What is computed again; of several the fewest layers that leave room, as nothing is said."""
    known = constants_file(SETTINGS)["checkpoints"]
    if row.checkpoint not in known:
        raise NotPredictedError(f"checkpointing not stated: {row.checkpoint!r}")
    meant = known[row.checkpoint]
    return meant if isinstance(meant, list) else [meant]


def by_words(row: LlmRow, table: str) -> dict[str, Any] | None:
    """The first entry of a table of the settings whose words the row says; None without."""
    entries: list[dict[str, Any]] = constants_file(SETTINGS)[table]
    return next((entry for entry in entries if entry["words"] in row.said), None)


def _workload(row: LlmRow, config: str) -> dict[str, Any]:
    kernels = by_words(row, "kernels")
    return {
        "model": {"config": config},
        "sequence_length": row.seq_len,
        "attention": "flash" if row.flash else "unfused",
        "batch_per_gpu": row.micro_batch,
        "gradient_accumulation": row.passes,
        "precision": row.precision,
        "optimizer": "adamw",
        "execution": "compile" if row.compiled else "eager",
        **({} if kernels is None else {"kernels": kernels["year"]}),
    }


def _sizes(row: LlmRow) -> Sizes:
    heads = (row.heads, row.kv_heads)
    return Sizes(row.layers, row.hidden, *heads, row.ffn, row.vocab, row.seq_len)


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
    raise NotPredictedError(f"shard group not known: {row.shard_group!r}")


def _groups(row: LlmRow) -> Iterator[str]:
    size = next((name for most, name in _SIZES if row.params < most), "15 G and more")
    yield f"source {row.source}"
    yield f"gpu {row.gpu.name}"
    yield f"parameters {size}"
    yield f"checkpointing {row.checkpoint}"
    yield f"gpus {row.gpus}"
    yield f"precision {row.precision}"
    yield "beyond one node" if row.nodes > 1 else "one node"
