"""BART (Lewis et al. 2020): an encoder and a decoder with learned positions and norms after layers.

Both and the output share a table of words. bart-large has 406,291,456 parameters.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


def bart(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    tokens: int,
    *,
    inner: int | None = None,
    words: int = 50_265,
    positions: int = 1024,
    fused: bool = False,
) -> Model:
    """Build ``blocks`` of encoder and of decoder, for a text and its original of ``tokens``."""
    b = Builder((tokens,))
    b.embedding("shared", words, width)
    for part in ("encoder", "decoder"):
        if part == "decoder":
            b.shape = (tokens,)
            b.embedding("decoder.embed_tokens", words, width, tied=True)
        # The first two rows are for padding.
        b.parameter(f"{part}.embed_positions", (positions + 2) * width)
        b.layer_norm(f"{part}.layernorm_embedding")
        b.activation(f"{part}.dropout", kept=True)
        for block in range(blocks):
            _block(b, f"{part}.layers.{block}", heads, inner or 4 * width, part, fused)
    b.linear("lm_head", words, tied=True, kept=False)
    b.cross_entropy("loss")
    return b.build(name, f"pair of texts of {tokens} tokens")


def _block(b: Builder, name: str, heads: int, inner: int, part: str, fused: bool) -> None:
    width = b.shape[1]
    for attention in ("self_attn", "encoder_attn") if part == "decoder" else ("self_attn",):
        for projection in ("k_proj", "v_proj", "q_proj"):
            b.linear(f"{name}.{attention}.{projection}", width)
        (b.fused_attention if fused else b.attention)(f"{name}.{attention}", heads)
        b.linear(f"{name}.{attention}.out_proj", width, kept=False)
        _normed(b, f"{name}.{attention}")
    b.linear(f"{name}.fc1", inner)
    b.activation(f"{name}.gelu", kept=True)
    b.linear(f"{name}.fc2", width, kept=False)
    _normed(b, name)


def _normed(b: Builder, name: str) -> None:
    b.activation(f"{name}.dropout")
    b.add(f"{name}.add", kept=True)
    b.layer_norm(f"{name}.layer_norm")
