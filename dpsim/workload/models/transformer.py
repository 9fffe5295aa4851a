"""The encoder and decoder of Vaswani et al. 2017.

The big one for WMT English-German, as in fairseq, has 210 M parameters. The encoder, the decoder
and the output share a table of words; positions are sines.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

_WORDS = 33_708


def transformer(name: str, blocks: int, width: int, heads: int, sequence_length: int) -> Model:
    """Build ``blocks`` of encoder and of decoder; a sentence has ``sequence_length`` tokens."""
    b = Builder((sequence_length,))
    b.embedding("embed_tokens", _WORDS, width)
    b.add("embed.positions", kept=True)
    for part, crosses in (("encoder", False), ("decoder", True)):
        for block in range(blocks):
            _attention(b, f"{part}.layers.{block}.self_attn", heads)
            if crosses:
                _attention(b, f"{part}.layers.{block}.encoder_attn", heads)
            _feed_forward(b, f"{part}.layers.{block}")
    b.linear("output", _WORDS, tied=True, kept=False)
    b.activation("loss", kept=True)
    return b.build(name, f"pair of sentences of {sequence_length} tokens")


def _attention(b: Builder, name: str, heads: int) -> None:
    for part in ("q_proj", "k_proj", "v_proj"):
        b.linear(f"{name}.{part}", b.shape[1])
    b.attention(name, heads)
    b.linear(f"{name}.out_proj", b.shape[1], kept=False)
    _normed(b, name)


def _feed_forward(b: Builder, name: str) -> None:
    width = b.shape[1]
    b.linear(f"{name}.fc1", 4 * width)
    b.activation(f"{name}.relu")
    b.linear(f"{name}.fc2", width, kept=False)
    _normed(b, name)


def _normed(b: Builder, name: str) -> None:
    b.activation(f"{name}.dropout")
    b.add(f"{name}.add", kept=True)
    b.layer_norm(f"{name}.layer_norm")
