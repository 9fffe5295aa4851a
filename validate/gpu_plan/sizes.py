"""How large the plan's models, batches and messages are: for a GPU, or small for a processor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Size:
    """How large everything is: of a GPU, or small for a processor.

    ``variants`` are precision, execution and checkpointing of a step, the most telling first;
    ``seconds`` what pieces take about, by which the plan's time is divided.
    """

    models: Mapping[str, tuple[int, ...]]  # batch sizes by model
    measured: tuple[str, ...]  # whose layers the profile has; the node's usual ones if none
    sequence: int | None
    variants: tuple[tuple[str, str, str], ...]
    steps: int
    largest: int  # bytes of codecs and copies
    seconds: Mapping[str, float]


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
    (
        ("bf16", "eager", "none"),
        ("fp32", "eager", "none"),
        ("bf16", "eager", "full"),
        ("tf32", "eager", "none"),
        # Last: compiling takes as long as all the others.
        ("bf16", "compile", "none"),
    ),
    8,
    2**27,
    {
        "node": 270,
        "steps": 75,
        "shared": 150,
        "codecs": 30,
        "copies": 20,
        "learners": 40,
        "trace": 60,
    },
)
SMALL = Size(
    {"resnet18": (1, 2), "gpt2": (1,)},
    (),
    16,
    (("fp32", "eager", "none"), ("fp32", "eager", "full")),
    3,
    2**18,
    {
        "node": 120,
        "steps": 60,
        "shared": 120,
        "codecs": 10,
        "copies": 5,
        "learners": 10,
        "trace": 30,
    },
)
