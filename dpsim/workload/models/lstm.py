"""LSTM language models: 51,034,000 parameters in that for Penn Treebank (Press and Wolf 2017)."""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model


def lstm_ptb(name: str, words: int, width: int, layers: int, sequence_length: int) -> Model:
    """Build ``layers`` of LSTM and the loss; the output layer is tied to the embedding."""
    b = Builder((sequence_length,))
    b.embedding("encoder", words, width)
    for index in range(layers):
        b.activation(f"drop{index}", kept=True)
        b.recurrent(f"rnn.l{index}", width)
    b.activation("drop", kept=True)
    b.linear("decoder", words, tied=True, bias=True, kept=False)
    b.activation("loss", kept=True)
    return b.build(name, f"{sequence_length} tokens")
