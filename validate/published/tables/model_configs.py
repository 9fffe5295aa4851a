"""Configurations of transformers whose sizes a row states, as files beside its scenario."""

from __future__ import annotations

import json
from typing import Any, NamedTuple


class Sizes(NamedTuple):
    """Of a transformer; ``positions`` are the tokens of a sample."""

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    positions: int


def config_file(sizes: Sizes, *, gated: bool) -> tuple[str, str]:
    """The name and the text of a Hugging Face configuration: LLaMA's layers, or GPT-2's."""
    family, content = ("llama", _llama(sizes)) if gated else ("gpt2", _gpt2(sizes))
    # One file for all rows of these sizes: what is read of it is kept.
    return f"{family}-{'-'.join(map(str, sizes))}.json", json.dumps(content)


def _llama(sizes: Sizes) -> dict[str, Any]:
    return {
        "model_type": "llama",
        "num_hidden_layers": sizes.layers,
        "hidden_size": sizes.hidden,
        "num_attention_heads": sizes.heads,
        "num_key_value_heads": sizes.kv_heads,
        "intermediate_size": sizes.ffn,
        "vocab_size": sizes.vocab,
        "max_position_embeddings": sizes.positions,
    }


def _gpt2(sizes: Sizes) -> dict[str, Any]:
    return {
        "model_type": "gpt2",
        "n_layer": sizes.layers,
        "n_embd": sizes.hidden,
        "n_head": sizes.heads,
        "n_inner": sizes.ffn,
        "vocab_size": sizes.vocab,
        "n_positions": sizes.positions,
    }
