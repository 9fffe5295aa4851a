"""ELECTRA (Clark et al. 2020): a small generator fills in tokens, and a BERT detects replaced ones.

They are pre-trained together, see all tokens, and share the tables of words, positions, segments.
"""

from __future__ import annotations

from math import ceil

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model
from dpsim.workload.models.bert import encoder_block

_WORDS, _POSITIONS, _SEGMENTS = 30_522, 512, 2
_MASKED_SHARE = 0.15


def electra(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    smaller: int,
    tokens: int,
    *,
    fused: bool = False,
) -> Model:
    """Build both of ``blocks``; the generator's width and heads are ``smaller`` times fewer."""
    b = Builder((tokens,))
    b.embedding("embeddings.word_embeddings", _WORDS, width)
    b.embedding("embeddings.position_embeddings", _POSITIONS, width)
    b.embedding("embeddings.token_type_embeddings", _SEGMENTS, width)
    _encoder(b, "generator", blocks, width // smaller, heads // smaller, fused)
    b.shape = (ceil(_MASKED_SHARE * tokens), width // smaller)
    b.linear("generator_predictions.dense", width)
    b.activation("generator_predictions.gelu", kept=True)
    b.layer_norm("generator_predictions.LayerNorm")
    b.linear("generator_lm_head", _WORDS, bias=True, tied=True, kept=False)
    b.cross_entropy("generator_loss")
    b.shape = (tokens,)
    b.embedding("discriminator.word_embeddings", _WORDS, width, tied=True)
    _encoder(b, "discriminator", blocks, width, heads, fused)
    b.linear("discriminator_predictions.dense", width)
    b.activation("discriminator_predictions.gelu", kept=True)
    b.linear("discriminator_predictions.dense_prediction", 1)
    return b.build(name, f"{tokens} tokens")


def _encoder(b: Builder, name: str, blocks: int, width: int, heads: int, fused: bool) -> None:
    b.add(f"{name}.embeddings.add", terms=3, kept=True)
    b.layer_norm(f"{name}.embeddings.LayerNorm")
    b.activation(f"{name}.embeddings.dropout", kept=True)
    if width != b.shape[1]:
        b.linear(f"{name}.embeddings_project", width)
    for block in range(blocks):
        encoder_block(b, f"{name}.encoder.layer.{block}", heads, 4 * width, fused)
