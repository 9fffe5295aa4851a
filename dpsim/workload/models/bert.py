"""BERT (Devlin et al. 2019), uncased, with its pooler: 109,482,240 parameters in base."""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

_WORDS, _SEGMENTS = 30522, 2


def bert(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    sequence_length: int,
    *,
    positions: int,
    words: int = _WORDS,
    segments: int = _SEGMENTS,
    inner: int | None = None,
    fused: bool = False,
) -> Model:
    """Build an encoder of ``blocks`` over ``sequence_length`` tokens (at most ``positions``)."""
    b = Builder((sequence_length,))
    b.embedding("embeddings.word_embeddings", words, width)
    b.embedding("embeddings.position_embeddings", positions, width)
    b.embedding("embeddings.token_type_embeddings", segments, width)
    b.add("embeddings.add", terms=3, kept=True)
    b.layer_norm("embeddings.LayerNorm")
    b.activation("embeddings.dropout", kept=True)
    for block in range(blocks):
        encoder_block(b, f"encoder.layer.{block}", heads, inner or 4 * width, fused)
    b.shape = (1, width)  # the pooler sees the first token only
    b.linear("pooler.dense", width)
    b.activation("pooler.tanh")
    return b.build(name, f"{sequence_length} tokens")


def encoder_block(b: Builder, name: str, heads: int, inner: int, fused: bool) -> None:
    """Add attention and feed-forward, each with a residual sum and then a norm."""
    width = b.shape[1]
    for part in ("query", "key", "value"):
        b.linear(f"{name}.attention.self.{part}", width)
    (b.fused_attention if fused else b.attention)(f"{name}.attention.self", heads)
    # Backward of dropout (whose mask is left out) and of a sum does not need this output.
    b.linear(f"{name}.attention.output.dense", width, kept=False)
    _residual(b, f"{name}.attention.output")
    b.linear(f"{name}.intermediate.dense", inner)
    b.activation(f"{name}.intermediate.gelu", kept=True)
    b.linear(f"{name}.output.dense", width, kept=False)
    _residual(b, f"{name}.output")


def _residual(b: Builder, name: str) -> None:
    b.activation(f"{name}.dropout")
    b.add(f"{name}.add", kept=True)
    b.layer_norm(f"{name}.LayerNorm")
