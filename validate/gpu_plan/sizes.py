"""The sizes of the plan's models, batches and messages: for GPUs, or small for a CPU."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

Words = Mapping[str, Any]

# The workers' strategies, by their names in tables, the most usual first.
_STRATEGIES: Mapping[str, Words] = {
    "ddp": {"overlap": {"kind": "buckets"}},
    "fsdp": {"aggregation": {"kind": "sharded"}},
    "zero-1": {
        "aggregation": {
            "kind": "sharded",
            "stage": 1,
            "gradients": {"collective": "all-reduce"},
        }
    },
    "local-sgd": {"sync": {"kind": "local-sgd", "every": 2}, "overlap": {"kind": "sequential"}},
    "servers": {
        "aggregation": {"kind": "parameter-server", "servers": 1},
        "overlap": {"kind": "sequential"},
    },
}
_HYBRID: Words = {"aggregation": {"kind": "sharded", "shard_group": "node"}}


@dataclass(frozen=True, slots=True)
class Size:
    """The sizes of a plan.

    ``variants`` are words of the workload, the most useful first, each measured at ``batches``
    batch sizes of each model; ``measured`` are the models of the profile. ``seconds`` is the
    approximate duration of an item: a step by one rank, or by several, and a trace.
    """

    models: tuple[str, ...]
    several_ranks: tuple[str, ...]
    measured: tuple[str, ...]
    variants: tuple[Words, ...]
    strategies: Mapping[str, Words]
    across_nodes: Mapping[str, Words]
    sequence: int | None
    most_batch: int
    batches: int
    steps: int
    seconds: Mapping[str, float]


GPU = Size(
    models=(
        "resnet50",
        "bert-large",
        "gpt2",
        "llama3.2-1b",
        "gpt2-medium",
        "gpt2-large",
        "gpt2-xl",
        "llama3.2-3b",
    ),
    several_ranks=("resnet50", "bert-large", "llama3.2-1b"),
    measured=("resnet50", "bert-large", "gpt2", "llama3.2-1b"),
    variants=(
        {"precision": "bf16"},
        {"precision": "fp32"},
        {"precision": "bf16", "checkpoint": "full"},
        {"precision": "bf16", "memory_format": "channels_last", "optimizer_kernels": "fused"},
        {"precision": "tf32"},
        {"precision": "bf16", "execution": "cuda-graph"},
        # Compiling comes last, since it takes as long as all other variants.
        {"precision": "bf16", "execution": "compile"},
    ),
    strategies=_STRATEGIES,
    across_nodes={**_STRATEGIES, "hsdp": _HYBRID},
    sequence=None,
    most_batch=256,
    batches=2,
    steps=8,
    seconds={"step": 8.0, "compile": 45.0, "several_ranks": 12.0, "trace": 20.0, "other": 15.0},
)
SMALL = Size(
    models=("resnet18", "gpt2"),
    several_ranks=("resnet18",),
    measured=("small-cnn",),
    variants=({"precision": "fp32"}, {"precision": "fp32", "checkpoint": "full"}),
    strategies={name: _STRATEGIES[name] for name in ("ddp", "fsdp")},
    across_nodes={"ddp": _STRATEGIES["ddp"]},
    sequence=16,
    most_batch=1,
    batches=1,
    steps=3,
    seconds={"step": 10.0, "compile": 60.0, "several_ranks": 15.0, "trace": 15.0, "other": 10.0},
)
