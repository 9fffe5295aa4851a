"""Configurations of transformers with the sizes that a row states, as files beside its scenario."""

from __future__ import annotations

import json
from typing import NamedTuple


class Sizes(NamedTuple):
    """The sizes of a transformer; ``positions`` are the tokens of a sample."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    positions: int


# The names of the sizes in each family of configurations.
_NAMES = {
    "llama": (
        "num_hidden_layers", "hidden_size", "num_attention_heads", "num_key_value_heads",
        "intermediate_size", "vocab_size", "max_position_embeddings",
    ),
    "gpt2": ("n_layer", "n_embd", "n_head", None, "n_inner", "vocab_size", "n_positions"),
}  # fmt: skip


def config_file(sizes: Sizes, *, gated: bool) -> tuple[str, str]:
    """Return name and text of a Hugging Face configuration: LLaMA's layers, or GPT-2's."""
    family = "llama" if gated else "gpt2"
    named = zip(_NAMES[family], sizes, strict=True)
    content = {"model_type": family, **{name: size for name, size in named if name is not None}}
    # All rows of these sizes share one file, which is parsed once.
    return f"{family}-{'-'.join(map(str, sizes))}.json", json.dumps(content)
