"""LLaMA (Touvron et al. 2023) and similar models.

They have RMS norms, rotary positions, a gated feed-forward, fused attention and no biases. LLaMA-7B
has 6,738,415,616 parameters. LLaMA-2 70B, LLaMA-3 and Mistral have fewer groups of keys than heads,
Qwen 2 has biases, Qwen 3 norms of queries and keys, OLMo norms without weights, OLMo 2 norms after
its layers, Gemma 2 and 3 both before and after, Phi-3 fewer and wider products, Mixtral experts
instead of the feed-forward.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


@dataclass(frozen=True, slots=True)
class Llama:
    """The sizes of a model.

    ``groups`` is the number of key and value heads, ``inner`` the feed-forward's (or each expert's)
    width, ``head`` the width of a head. ``query_norms``: queries and keys are normalised per head,
    or over their whole width. ``packed``: queries, keys and values are one product, like the two
    halves of the feed-forward. ``experts``: their number, and the number per token. ``window``: the
    tokens that layers attend to, except each ``global_every``-th layer, which attends to all.
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
    norm_weights: bool = True
    norms: Literal["before", "after", "both"] = "before"
    query_norms: Literal["head", "width"] | None = None
    packed: bool = False
    experts: tuple[int, int] | None = None
    window: int | None = None
    global_every: int | None = None

    def window_of(self, block: int) -> int | None:
        """Return the number of tokens that a block attends to, or None for all."""
        every = self.global_every
        return None if every is not None and (block + 1) % every == 0 else self.window


def llama(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    inner: int,
    sequence_length: int,
    **more: Any,
) -> Model:
    """Build a decoder and its loss over ``sequence_length`` tokens; ``more``: fields of `Llama`."""
    sizes = Llama(blocks, width, heads, inner, **more)
    b = Builder((sequence_length,))
    b.embedding("embed_tokens", sizes.words, sizes.width)
    for block in range(sizes.blocks):
        _block(b, f"layers.{block}", sizes, sizes.window_of(block))
    b.rms_norm("norm", weights=sizes.norm_weights)
    b.linear("lm_head", sizes.words, bias=False, tied=sizes.tied, kept=False)
    b.cross_entropy("loss")
    return b.build(name, f"{sequence_length} tokens")


def _block(b: Builder, name: str, sizes: Llama, window: int | None) -> None:
    parts = (
        ("input_layernorm", "self_attn", "post_self_attn_layernorm"),
        ("post_attention_layernorm", "mlp", "post_mlp_layernorm"),
    )
    for before, part, after in parts:
        if sizes.norms != "after":
            b.rms_norm(f"{name}.{before}", weights=sizes.norm_weights)
        if part == "self_attn":
            _attention(b, f"{name}.self_attn", sizes, window)
        elif sizes.experts is not None:
            b.experts(f"{name}.mlp", *sizes.experts, sizes.inner)
        else:
            _feed_forward(b, f"{name}.mlp", sizes)
        if sizes.norms != "before":
            b.rms_norm(f"{name}.{after}", weights=sizes.norm_weights)
        b.add(f"{name}.{part}.add", kept=True)


def _attention(b: Builder, name: str, sizes: Llama, window: int | None) -> None:
    tokens = b.shape[0]
    head_width = sizes.head or sizes.width // sizes.heads
    groups = sizes.groups or sizes.heads
    _projections(b, name, sizes, head_width)
    if sizes.query_norms is not None:
        for part, heads in (("q", sizes.heads), ("k", groups)):
            b.shape = (tokens, heads * head_width)
            b.rms_norm(f"{name}.{part}_norm", heads=heads if sizes.query_norms == "head" else None)
    # Of queries and keys.
    b.shape = (tokens, (sizes.heads + groups) * head_width)
    b.activation(f"{name}.rotary", kept=True)
    b.shape = (tokens, sizes.heads * head_width)
    if sizes.fused:
        b.fused_attention(name, sizes.heads, groups, window=window)
    else:
        b.attention(name, sizes.heads)
    b.linear(f"{name}.o_proj", sizes.width, bias=False, kept=False)


def _projections(b: Builder, name: str, sizes: Llama, head_width: int) -> None:
    """Add queries, keys and values: three products of the input, or one."""
    entering = b.shape
    groups = sizes.groups or sizes.heads
    if sizes.packed:
        b.linear(f"{name}.qkv_proj", (sizes.heads + 2 * groups) * head_width, bias=sizes.biases)
        return
    for part, heads in (("q", sizes.heads), ("k", groups), ("v", groups)):
        b.shape = entering
        b.linear(f"{name}.{part}_proj", heads * head_width, bias=sizes.biases)


def _feed_forward(b: Builder, name: str, sizes: Llama) -> None:
    entering = b.shape
    if sizes.packed:
        b.linear(f"{name}.gate_up_proj", 2 * sizes.inner, bias=False)
        b.shape = (entering[0], sizes.inner)
        b.activation(f"{name}.silu", kept=True)
    else:
        b.linear(f"{name}.gate_proj", sizes.inner, bias=False)
        b.activation(f"{name}.silu", kept=True)
        b.shape = entering
        b.linear(f"{name}.up_proj", sizes.inner, bias=False)
    # An element-wise product, with the traffic of a sum.
    b.add(f"{name}.gate", kept=True)
    b.linear(f"{name}.down_proj", sizes.width, bias=False, kept=False)
