"""ModernBERT (Warner et al. 2024): rotary positions, a gated feed-forward, no biases.

Two of three layers attend to a window of 128 tokens. Base has 149,014,272 parameters.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

_WORDS = 50_368
_WINDOW = 128
_GLOBAL_EVERY = 3  # layers, from the first on


def modernbert(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    inner: int,
    sequence_length: int,
    *,
    fused: bool = True,
) -> Model:
    """Build an encoder of ``blocks`` blocks over ``sequence_length`` tokens."""
    b = Builder((sequence_length,))
    b.embedding("embeddings.tok_embeddings", _WORDS, width)
    b.rms_norm("embeddings.norm")  # or a layer norm without bias, which costs the same
    for block in range(blocks):
        _block(b, block, heads, inner, fused)
    b.rms_norm("final_norm")
    return b.build(name, f"{sequence_length} tokens")


def _block(b: Builder, block: int, heads: int, inner: int, fused: bool) -> None:
    name = f"layers.{block}"
    tokens, width = b.shape
    if block > 0:  # the embeddings have the first block's norm
        b.rms_norm(f"{name}.attn_norm")
    b.linear(f"{name}.attn.Wqkv", 3 * width, bias=False)
    b.shape = (tokens, 2 * width)  # queries and keys
    b.activation(f"{name}.attn.rotary", kept=True)
    b.shape = (tokens, width)
    if fused:
        window = None if block % _GLOBAL_EVERY == 0 else _WINDOW
        b.fused_attention(f"{name}.attn", heads, window=window)
    else:
        b.attention(f"{name}.attn", heads)
    b.linear(f"{name}.attn.Wo", width, bias=False, kept=False)
    b.add(f"{name}.attn.add", kept=True)
    b.rms_norm(f"{name}.mlp_norm")
    b.linear(f"{name}.mlp.Wi", 2 * inner, bias=False)
    b.shape = (tokens, inner)
    b.activation(f"{name}.mlp.gelu", kept=True)
    # An element-wise product, with the traffic of a sum.
    b.add(f"{name}.mlp.gate", kept=True)
    b.linear(f"{name}.mlp.Wo", width, bias=False, kept=False)
    b.add(f"{name}.mlp.add", kept=True)
