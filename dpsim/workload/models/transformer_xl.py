"""Transformer-XL (Dai et al. 2019) as in NVIDIA's DeepLearningExamples, for WikiText-103.

Base has 192 M parameters, large 285 M, as in the paper's checkpoint of 1.14 GB, although it is
quoted with 257 M. Queries attend to their segment and to an equally long memory, by content and by
relative position. Words are in four clusters by frequency; the output computes the first cluster
for all tokens, and each other cluster only for its tokens.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

# Words of each cluster, and its estimated share of WikiText-103's tokens.
_CLUSTERS = ((19_997, 0.93), (20_000, 0.03), (160_000, 0.035), (67_738, 0.005))


def transformer_xl(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    inner: int,
    shrink: int,
    sequence_length: int,
) -> Model:
    """Build a decoder and its loss over segments of ``sequence_length`` tokens.

    Each cluster of words is ``shrink`` times narrower than the previous one.
    """
    b = Builder((sequence_length,))
    _embeddings(b, width, shrink)
    b.parameter("r_w_bias", width)
    b.parameter("r_r_bias", width)
    for block in range(blocks):
        _attention(b, f"layers.{block}.dec_attn", heads)
        _feed_forward(b, f"layers.{block}.pos_ff", inner)
    _loss(b, shrink)
    return b.build(name, f"{sequence_length} tokens")


def _embeddings(b: Builder, width: int, shrink: int) -> None:
    """Add the clusters' tables, each widened by a matrix; the output shares them."""
    tokens = b.shape[0]
    if shrink == 1:
        b.embedding("word_emb", sum(words for words, _ in _CLUSTERS), width)
        return
    for index, (words, share) in enumerate(_CLUSTERS):
        # The mean number of tokens of the cluster.
        b.shape = (max(1, round(tokens * share)),)
        b.embedding(f"word_emb.{index}", words, width // shrink**index)
        b.linear(f"word_emb.{index}.proj", width, bias=False)
    b.shape = (tokens, width)


def _attention(b: Builder, name: str, heads: int) -> None:
    tokens, width = b.shape
    b.shape = (
        2 * tokens,
        width,
    )  # the memory's keys and values are recomputed, and its queries discarded
    b.linear(f"{name}.qkv_net", 3 * width, bias=False)
    b.shape = (tokens, width)
    b.parameter(
        f"{name}.r_net", width * width
    )  # of the positions, once for the whole batch: no work per sample
    b.attention(name, heads, keys=2 * tokens, relative=True)
    b.linear(f"{name}.o_net", width, bias=False, kept=False)
    _residual(b, name)


def _feed_forward(b: Builder, name: str, inner: int) -> None:
    width = b.shape[1]
    b.linear(f"{name}.0", inner)
    b.activation(f"{name}.relu")
    b.linear(f"{name}.3", width, kept=False)
    _residual(b, name)


def _residual(b: Builder, name: str) -> None:
    b.activation(f"{name}.drop")
    b.add(f"{name}.add", kept=True)
    b.layer_norm(f"{name}.layer_norm")


def _loss(b: Builder, shrink: int) -> None:
    tokens, width = b.shape
    b.linear("crit.clusters", len(_CLUSTERS) - 1)
    for index, (words, share) in enumerate(_CLUSTERS):
        b.shape = (tokens if index == 0 else max(1, round(tokens * share)), width)
        if shrink > 1:
            b.linear(f"crit.{index}.proj", width // shrink**index, bias=False, tied=index > 0)
        b.linear(f"crit.{index}", words, tied=True, bias=True, kept=False)
        b.activation(f"crit.{index}.log_softmax", kept=True)
