"""Whisper (Radford et al. 2022): an encoder of 30 seconds of sound and a decoder of their text.

Two convolutions turn 3,000 frames of 80 bands into 1,500 vectors. Tables of positions are sines in
the encoder and learned in the decoder; keys have no bias; the output is tied to the embedding.
Small has 241,734,912 parameters.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

_BANDS, _FRAMES = 80, 3000
_WORDS, _POSITIONS = 51_865, 448


def whisper(
    name: str,
    blocks: int,
    width: int,
    heads: int,
    sequence_length: int,
    *,
    fused: bool = True,
) -> Model:
    """Build ``blocks`` of encoder and of decoder, for a text of ``sequence_length`` tokens."""
    b = Builder((_BANDS, 1, _FRAMES))
    # Convolutions over time: images of one row, with bands as channels.
    b.conv("encoder.conv1", width, (1, 3), (1, 1), (0, 1), bias=True)
    b.activation("encoder.gelu1", kept=True)
    b.conv("encoder.conv2", width, (1, 3), (1, 2), (0, 1), bias=True)
    b.activation("encoder.gelu2", kept=True)
    encoded = b.shape[2]
    b.shape = (encoded, width)
    b.parameter("encoder.embed_positions", encoded * width)
    for block in range(blocks):
        _attention(b, f"encoder.layers.{block}.self_attn", heads, fused)
        _feed_forward(b, f"encoder.layers.{block}")
    b.layer_norm("encoder.layer_norm")
    b.shape = (sequence_length,)
    b.embedding("decoder.embed_tokens", _WORDS, width)
    b.parameter("decoder.embed_positions", _POSITIONS * width)
    for block in range(blocks):
        _attention(b, f"decoder.layers.{block}.self_attn", heads, fused)
        _attention(b, f"decoder.layers.{block}.encoder_attn", heads, fused, encoded)
        _feed_forward(b, f"decoder.layers.{block}")
    b.layer_norm("decoder.layer_norm")
    b.linear("proj_out", _WORDS, bias=False, tied=True, kept=False)
    b.activation("loss", kept=True)
    return b.build(name, f"30 s of sound and {sequence_length} tokens")


def _attention(b: Builder, name: str, heads: int, fused: bool, encoded: int | None = None) -> None:
    """Add self-attention of tokens, or cross-attention to ``encoded`` vectors of the encoder."""
    tokens, width = b.shape
    b.layer_norm(f"{name}_layer_norm")
    b.shape = (encoded or tokens, width)
    b.linear(f"{name}.k_proj", width, bias=False)
    b.linear(f"{name}.v_proj", width)
    b.shape = (tokens, width)
    b.linear(f"{name}.q_proj", width)
    (b.fused_attention if fused else b.attention)(name, heads, keys=encoded)
    b.linear(f"{name}.out_proj", width, kept=False)
    b.add(f"{name}.add", kept=True)


def _feed_forward(b: Builder, name: str) -> None:
    width = b.shape[1]
    b.layer_norm(f"{name}.final_layer_norm")
    b.linear(f"{name}.fc1", 4 * width)
    b.activation(f"{name}.gelu", kept=True)
    b.linear(f"{name}.fc2", width, kept=False)
    b.add(f"{name}.add", kept=True)
