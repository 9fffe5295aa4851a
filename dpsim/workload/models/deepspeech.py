"""Deep Speech 2 (Amodei et al. 2016): convolutions over a spectrogram, then bidirectional GRUs.

``deepspeech2`` is the default of deepspeech.pytorch (5 x 800), ``deepspeech2-large`` that of the
paper and of Deep Gradient Compression (7 x 1200, 127.95 M parameters). Spectra have 161 values
every 10 ms; directions are summed; batch norms are between layers.
"""

from __future__ import annotations

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

_LETTERS = 29
# Channels, then kernel, stride and padding, each over (values, frames).
_CONVOLUTIONS = (
    (32, (41, 11), (2, 2), (20, 5)),
    (32, (21, 11), (2, 1), (10, 5)),
    (96, (21, 11), (2, 1), (10, 5)),
)


def deepspeech2(name: str, convolutions: int, depth: int, width: int, frames: int) -> Model:
    """Build Deep Speech 2 over ``frames`` of 10 ms.

    It has the first ``convolutions`` of three, then ``depth`` GRU layers of ``width``, and a linear
    layer over letters.
    """
    b = Builder((1, 161, frames))
    for index, (channels, kernel, stride, padding) in enumerate(_CONVOLUTIONS[:convolutions]):
        b.conv(f"conv.{index}", channels, kernel, stride, padding)
        b.batch_norm(f"conv.{index}.bn")
        b.activation(f"conv.{index}.hardtanh")
    channels, values, steps = b.shape
    # Each frame, with all its channels, is a token of the recurrent layers.
    b.shape = (steps, channels * values)
    for index in range(depth):
        if index:
            _batch_norm(b, f"rnns.{index}.batch_norm")
        b.bidirectional(f"rnns.{index}.rnn", width, gates=3, concatenated=False)
    _batch_norm(b, "fc.batch_norm")
    b.linear("fc", _LETTERS, bias=False)
    b.activation("loss", kept=True)
    return b.build(name, f"{frames} frames of 10 ms")


def _batch_norm(b: Builder, name: str) -> None:
    """Add a batch norm over tokens, with one channel per value of the width."""
    tokens, width = b.shape
    b.shape = (width, tokens)
    b.batch_norm(name)
    b.shape = (tokens, width)
