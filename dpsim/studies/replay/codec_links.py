"""Vectors after compression by a codec: from one sender, or as a mean of all."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import RealArray
from dpsim.disturbance import random_stream
from dpsim.strategy.compression import Codec, CompressedMean, Floats


class CodecMean:
    """The mean of all workers' vectors (workers, P) by a collective with the codec.

    Lossless without a codec. Without ``feedback`` losses are not kept, because the next difference
    contains them.
    """

    def __init__(
        self, codec: Codec, workers: int, elements: int, seed: int, *, feedback: bool = True
    ) -> None:
        kind = CompressedMean if feedback else _Differences
        self._exchange = None if codec.exact else kind(codec, workers, elements, seed)

    def mean(self, vectors: RealArray) -> RealArray:
        """Return the mean (P,) that every worker gets."""
        if self._exchange is None:
            return np.asarray(vectors.sum(axis=0) / len(vectors))
        # Codecs take fp32, like gradients on a GPU; the replay computes in double precision.
        return self._exchange.mean(vectors.astype(np.float32)).astype(vectors.dtype)


class CodecLink(CodecMean):
    """One sender's encoder, with its residual, and its receivers' decoder."""

    def __init__(
        self, codec: Codec, elements: int, seed: int, sender: int, *, feedback: bool = True
    ) -> None:
        # A random stream per sender, so that their random choices differ.
        drawn = int(random_stream(seed, "codec", sender).integers(2**63))
        super().__init__(codec, 1, elements, drawn, feedback=feedback)

    def carry(self, vector: RealArray) -> RealArray:
        """Return ``vector`` (P,) as receivers decode it."""
        return self.mean(vector[None])


def gossip_step_size(codec: Codec, elements: int) -> float:
    """Return the step size of gossip towards received values: 1 if lossless.

    Otherwise half of the share that the codec sends: with less sent, the neighbours' known values
    lag behind more, and a larger step overshoots.
    """
    if codec.exact:
        return 1.0
    sent = codec.wire_bytes(elements) / (4 * elements)
    return min(sent, 1.0) / 2


class _Differences(CompressedMean):
    """Encodes as for error feedback, but keeps no residual."""

    def __init__(self, codec: Codec, workers: int, elements: int, seed: int) -> None:
        fed_back = {"error_feedback": True} if "error_feedback" in type(codec).model_fields else {}
        super().__init__(codec.model_copy(update=fed_back), workers, elements, seed)

    def mean(self, vectors: Floats) -> Floats:
        # The next difference contains the loss already; a residual would send it twice.
        self.residuals[...] = 0
        return super().mean(vectors)
