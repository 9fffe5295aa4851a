"""LLaMA (Touvron et al. 2023) and its like.

RMS norm, rotary positions, gated feed-forward, fused attention, no biases.

LLaMA-7B has 6,738,415,616 parameters. With fewer groups of keys than heads: LLaMA-2 70B, LLaMA-3,
Mistral.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


@dataclass(frozen=True, slots=True)
class Llama:
    """The sizes of a model.

    ``groups`` are the heads of keys and values, ``inner`` is the feed-forward's width, ``head``
    each head's.
    """

    blocks: int
    width: int
    heads: int
    inner: int
    groups: int | None = None
    words: int = 32_000
    tied: bool = False
    fused: bool = True
    head: int | None = None
    biases: bool = False  # of queries, keys and values (Qwen 2)


def llama(name: str, sizes: Llama, sequence_length: int) -> Model:
    """A decoder over ``sequence_length`` tokens, with the loss over its words."""
    b = Builder((sequence_length,))
    b.embedding("embed_tokens", sizes.words, sizes.width)
    for block in range(sizes.blocks):
        _attention(b, f"layers.{block}", sizes)
        _feed_forward(b, f"layers.{block}", sizes)
    b.rms_norm("norm")
    b.linear("lm_head", sizes.words, bias=False, tied=sizes.tied, kept=False)
    b.activation("loss", kept=True)
    return b.build(name, f"{sequence_length} tokens")


def of_sizes(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    inner: int,
    sequence_length: int,
    **more: Any,
) -> Model:
    """The same, a line of the catalogue: what a published model says of itself.

    ``more`` are further fields of `Llama`.
    """
    return llama(name, Llama(blocks, width, heads, inner, **more), sequence_length)


def _attention(b: Builder, name: str, sizes: Llama) -> None:
    entering = b.shape
    each = sizes.head or sizes.width // sizes.heads
    groups = sizes.groups or sizes.heads
    b.rms_norm(f"{name}.input_layernorm")
    for part, heads in (("q", sizes.heads), ("k", groups), ("v", groups)):
        b.shape = entering
        b.linear(f"{name}.self_attn.{part}_proj", heads * each, bias=sizes.biases)
    b.shape = (entering[0], (sizes.heads + groups) * each)
    b.activation(f"{name}.self_attn.rotary", kept=True)
    b.shape = (entering[0], sizes.heads * each)
    if sizes.fused:
        b.fused_attention(f"{name}.self_attn", sizes.heads, groups)
    else:
        b.attention(f"{name}.self_attn", sizes.heads)
    b.linear(f"{name}.self_attn.o_proj", sizes.width, bias=False, kept=False)
    b.add(f"{name}.self_attn.add", kept=True)


def _feed_forward(b: Builder, name: str, sizes: Llama) -> None:
    entering = b.shape
    b.rms_norm(f"{name}.post_attention_layernorm")
    b.linear(f"{name}.mlp.gate_proj", sizes.inner, bias=False)
    b.activation(f"{name}.mlp.silu", kept=True)
    b.shape = entering
    b.linear(f"{name}.mlp.up_proj", sizes.inner, bias=False)
    b.add(f"{name}.mlp.gate", kept=True)
    b.linear(f"{name}.mlp.down_proj", sizes.width, bias=False, kept=False)
    b.add(f"{name}.mlp.add", kept=True)
