"""Ternary: each element becomes -s, 0 or s at random, where s is the largest magnitude.

An element becomes sign(x) s with probability |x| / s and 0 otherwise, which is unbiased and off by
at most s. The payload has 2 bits per element (5 per byte would be 1.6) and 4 bytes for s. Payloads
are gathered, because workers' scales differ (the paper first exchanges the largest scale). Without
``bucket``, s is the scale of the whole payload, and finding it takes a pass of its own. Source: Wen
et al., "TernGrad: ternary gradients to reduce communication in distributed deep learning", NIPS
2017, without its clipping at 2.5 standard deviations.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, PositiveInt

from dpsim.strategy.compression.codec import FLOAT, Encoded, Floats, QuantisingCodec
from dpsim.strategy.compression.packing import (
    ceil_div,
    in_buckets,
    pack,
    packed_bytes,
    safe_divide,
    unpack,
)

_BITS = 2


class TernaryConfig(QuantisingCodec):
    """Elements are sent as -1, 0 or 1 and a scale."""

    kind: Literal["ternary"] = Field(
        description="Elements become -s, 0 or s (the largest magnitude) at random; gathered."
    )
    bucket: PositiveInt | None = Field(
        default=None,
        description="Number of elements that share a scale; the whole payload if left out.",
    )

    def wire_bytes(self, elements: int) -> int:
        """Return 2 bits per element, 4 bytes per scale."""
        return packed_bytes(elements, _BITS) + FLOAT * ceil_div(elements, self.bucket or elements)

    def encode_traffic(self, elements: int) -> float:
        """Return the bytes: one pass in for the rounding, the payload out.

        Finding a scale of the whole payload takes another pass in.
        """
        passes = 1 if self.bucket else 2
        # Without buckets the residual is added before the scale is known, so the sum is written and
        # read again.
        residual = self.residual_traffic(elements) * (1 if self.bucket else 1.5)
        return passes * FLOAT * elements + self.wire_bytes(elements) + residual

    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """Return two parts: float32 scales, packed 0 (minus), 1 (zero) or 2 (plus)."""
        rows = in_buckets(vector, self.bucket or len(vector))
        scales = np.abs(rows).max(axis=1)
        probabilities = safe_divide(np.abs(rows), scales[:, None]).reshape(-1)[: len(vector)]
        is_sent = generator.random(len(vector)) < probabilities
        # An element becomes s or -s with probability |x| / s, so its expectation is x.
        signs = np.where(is_sent, np.sign(vector), 0)
        return Encoded((scales, pack((signs + 1).astype(np.uint8), _BITS)))

    def decode(self, encoded: Encoded, elements: int) -> Floats:
        """Return the signs times the scales."""
        scales, packed = encoded.parts
        signs = unpack(packed, _BITS, elements).astype(np.float32) - 1
        decoded: Floats = signs * np.repeat(scales, self.bucket or elements)[:elements]
        return decoded
