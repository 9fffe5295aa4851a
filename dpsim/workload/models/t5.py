"""T5 (Raffel et al. 2020): an encoder and a decoder with RMS norms and learned distances.

Distances of tokens add to the scores of attention, which are therefore materialised. ``t5-base``
has 222,903,552 parameters; ``t5-v1.1`` has gated feed-forwards and an output layer of its own.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

_WORDS = 32_128
_DISTANCES = 32
# Spans of three tokens, 15 % in all, are cut out: of 568 tokens, 512 are input and 114 target.
_INPUTS, _TARGETS = 512, 114


@dataclass(frozen=True, slots=True)
class _Sizes:
    """The sizes of a block; ``inner`` is the feed-forward's width."""

    width: int
    heads: int
    inner: int
    head_width: int
    gated: bool


def t5(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    inner: int,
    tokens: int,
    *,
    head_width: int = 64,
    newer: bool = False,
) -> Model:
    """Build T5 over ``tokens`` of a text, its cut-out spans as target; ``newer``: version 1.1."""
    sizes = _Sizes(width, heads, inner, head_width, gated=newer)
    targets = max(1, round(tokens * _TARGETS / _INPUTS))
    b = Builder((tokens,))
    b.embedding("shared", _WORDS, width)
    _stack(b, "encoder", blocks, sizes, None)
    b.shape = (targets,)
    b.embedding("decoder.embed_tokens", _WORDS, width, tied=True)
    _stack(b, "decoder", blocks, sizes, tokens)
    b.linear("lm_head", _WORDS, bias=False, tied=not newer, kept=False)
    b.cross_entropy("loss")
    return b.build(name, f"{tokens} tokens and {targets} of their spans")


def _stack(b: Builder, name: str, blocks: int, sizes: _Sizes, encoded: int | None) -> None:
    b.activation(f"{name}.dropout", kept=True)
    for block in range(blocks):
        where = f"{name}.block.{block}"
        _attention(b, f"{where}.SelfAttention", sizes, None)
        if block == 0:
            b.parameter(f"{where}.relative_attention_bias", _DISTANCES * sizes.heads)
        if encoded is not None:
            _attention(b, f"{where}.EncDecAttention", sizes, encoded)
        _feed_forward(b, where, sizes)
    b.rms_norm(f"{name}.final_layer_norm")


def _attention(b: Builder, name: str, sizes: _Sizes, encoded: int | None) -> None:
    tokens = b.shape[0]
    inner = sizes.heads * sizes.head_width
    b.rms_norm(f"{name}.layer_norm")
    for part in "qkv":
        # Cross-attention takes keys and values from the encoder's vectors.
        b.shape = (tokens if part == "q" or encoded is None else encoded, sizes.width)
        b.linear(f"{name}.{part}", inner, bias=False)
    b.shape = (tokens, inner)
    b.attention(name, sizes.heads, keys=encoded)
    b.linear(f"{name}.o", sizes.width, bias=False, kept=False)
    b.add(f"{name}.add", kept=True)


def _feed_forward(b: Builder, name: str, sizes: _Sizes) -> None:
    b.rms_norm(f"{name}.layer_norm")
    if sizes.gated:
        entering = b.shape
        b.linear(f"{name}.wi_0", sizes.inner, bias=False)
        b.activation(f"{name}.act", kept=True)
        b.shape = entering
        b.linear(f"{name}.wi_1", sizes.inner, bias=False)
        # An element-wise product, with the traffic of a sum.
        b.add(f"{name}.gate", kept=True)
    else:
        b.linear(f"{name}.wi", sizes.inner, bias=False)
        b.activation(f"{name}.act")
    b.linear(f"{name}.wo", sizes.width, bias=False, kept=False)
    b.add(f"{name}.add", kept=True)
