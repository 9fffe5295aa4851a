"""How large the plan's models, batches and messages are: for a GPU, or small for a processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """How large everything is: of a GPU, or small for a processor."""

    models: Mapping[str, tuple[int, ...]]  # batch sizes by model
    measured: tuple[str, ...]  # whose layers the profile has; the node's usual ones if none
    sequence: int | None
    precisions: tuple[str, ...]
    executions: tuple[str, ...]
    checkpoints: tuple[str, ...]
    node_minutes: float
    steps: int
    largest: int  # bytes of codecs and copies


GPU = Size(
    {
        "resnet50": (32, 128),
        "bert-large": (4, 16),
        "gpt2": (4, 16),
        "gpt2-medium": (4, 8),
        "gpt2-large": (2, 4),
        "gpt2-xl": (1, 2),
        "llama3.2-1b": (1, 2),
        "llama3.2-3b": (1,),
    },
    ("resnet50", "bert-large", "gpt2", "llama3.2-1b"),
    None,
    ("fp32", "tf32", "bf16"),
    ("eager", "compile"),
    ("none", "full"),
    8.0,
    8,
    2**27,
)
SMALL = Size(
    {"resnet18": (1, 2), "gpt2": (1,)},
    (),
    16,
    ("fp32",),
    ("eager",),
    ("none", "full"),
    2.0,
    3,
    2**18,
)
