"""GNMT v2 (Wu et al. 2016) as in NVIDIA's DeepLearningExamples: 160,671,297 parameters.

4 + 4 LSTM layers of 1,024 with additive attention. The encoder's first layer is bidirectional; both
languages share a table of 32,320 words.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

_WORDS, _WIDTH = 32_320, 1024


def gnmt(name: str, sequence_length: int) -> Model:
    """Build GNMT for pairs of sentences of ``sequence_length`` tokens each."""
    b = Builder((sequence_length,))
    b.embedding("embedding", _WORDS, _WIDTH)
    b.bidirectional("encoder.l0", _WIDTH, concatenated=True)
    for index in range(1, 4):
        b.activation(f"encoder.drop{index}", kept=True)
        b.recurrent(f"encoder.l{index}", _WIDTH)
        if index > 1:
            b.add(f"encoder.add{index}", kept=True)
    b.shape = (sequence_length, _WIDTH)
    b.recurrent("decoder.l0", _WIDTH)
    _attention(b, "decoder.attention", sequence_length)
    for index in range(1, 4):
        b.shape = (
            sequence_length,
            2 * _WIDTH,
        )  # every layer's input includes the context
        b.activation(f"decoder.cat{index}", kept=True)
        b.recurrent(f"decoder.l{index}", _WIDTH)
        if index > 1:
            b.add(f"decoder.add{index}", kept=True)
    b.linear("decoder.classifier", _WORDS, kept=False)
    b.activation("loss", kept=True)
    return b.build(name, f"pair of sentences of {sequence_length} tokens")


def _attention(b: Builder, name: str, keys: int) -> None:
    """Add additive attention: scores v tanh(q + k), then the weighted sum of the keys."""
    tokens = b.shape[0]
    b.linear(f"{name}.linear_q", _WIDTH, bias=False)
    b.shape = (keys, _WIDTH)
    b.linear(f"{name}.linear_k", _WIDTH, bias=False)
    # tanh(q + k) is materialised for every pair: a vector of the whole width.
    b.shape = (tokens * keys, _WIDTH)
    b.activation(f"{name}.tanh", kept=True)
    b.parameter(f"{name}.normalize_bias", _WIDTH)
    b.linear(f"{name}.linear_att", 1, bias=True)
    b.shape = (tokens, _WIDTH)
    b.weighted_sum(f"{name}.context", keys)
