"""RNN-T (Graves 2012), as MLPerf trains it on LibriSpeech: 49.1 M parameters.

The encoder has two LSTM layers of 1,024 over frames of sound, and three over pairs of their
outputs; the prediction network two of 512 over the text; a joint network processes each pair of a
frame and a word piece.
"""

from __future__ import annotations

from math import ceil

from dpsim.workload.builder import Builder
from dpsim.workload.layer import Model

_PIECES = 1024  # including the blank
_SPLICED = 3  # frames of 10 ms whose 80 values are concatenated
# LibriSpeech has 9.4 M words in 960 h; assumes 1.65 pieces per word.
_FRAMES_PER_PIECE = 22


def rnnt(name: str, frames: int) -> Model:
    """Build RNN-T over ``frames`` of 10 ms and their text."""
    vectors = ceil(frames / _SPLICED)
    b = Builder((vectors, 80 * _SPLICED))
    for layer in range(2):
        _recurrent(b, f"encoder.pre_rnn.l{layer}", 1024)
    vectors = ceil(vectors / 2)
    b.shape = (vectors, 2 * 1024)
    b.activation("encoder.stack_time", kept=True)
    for layer in range(3):
        _recurrent(b, f"encoder.post_rnn.l{layer}", 1024)
    sound = b.shape

    pieces = ceil(frames / _FRAMES_PER_PIECE) + 1  # one for the start of the text
    b.shape = (pieces,)
    b.embedding("prediction.embed", _PIECES - 1, 512)
    for layer in range(2):
        _recurrent(b, f"prediction.dec_rnn.l{layer}", 512)
    b.linear("joint_pred", 512)
    b.shape = sound
    b.linear("joint_enc", 512)

    b.shape = (vectors * pieces, 512)
    b.activation("joint_net.relu", kept=True)  # with the sum and dropout in one kernel
    b.linear("joint_net.out", _PIECES)
    b.cross_entropy("loss")
    return b.build(name, f"{frames} frames of 10 ms")


def _recurrent(b: Builder, name: str, width: int) -> None:
    b.recurrent(name, width)
    b.activation(f"{name}.dropout", kept=True)
