"""int8: elements are rounded to 255 even steps, with a scale per bucket of elements.

A bucket's scale is its largest magnitude / 127, so an element is off by at most half of that. The
payload has 1 byte per element and 4 per bucket. Payloads are gathered, because sums would overflow
and scales differ between workers. A bucket stays in shared memory between finding its scale and
rounding, so encoding is one pass in and a quarter out. Source: Dettmers, "8-bit approximations for
parallelism in deep learning", ICLR 2016 (linear quantisation among others); blocks with their own
scale: Dettmers et al., "8-bit optimizers via block-wise quantization", ICLR 2022 (2048 elements).
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, PositiveInt

from dpsim.strategy.compression.codec import FLOAT, Encoded, Floats, QuantisingCodec
from dpsim.strategy.compression.packing import ceil_div, in_buckets, safe_divide

_STEPS = np.float32(127)


class Int8Config(QuantisingCodec):
    """Elements are sent as 8-bit integers with a scale per bucket."""

    kind: Literal["int8"] = Field(
        description="Elements are sent as 8-bit integers with a scale per bucket; gathered."
    )
    bucket: PositiveInt = Field(default=2048, description="Number of elements that share a scale.")

    def wire_bytes(self, elements: int) -> int:
        """Return 1 byte per element, 4 per bucket."""
        return elements + FLOAT * ceil_div(elements, self.bucket)

    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """Return two parts: a float32 scale per bucket, an int8 per element."""
        rows = in_buckets(vector, self.bucket)
        scales = np.abs(rows).max(axis=1) / _STEPS
        # If a scale was rounded down, the largest element exceeds 127 and would wrap around.
        exact = safe_divide(rows, scales[:, None])
        steps = np.rint(exact).clip(-_STEPS, _STEPS).astype(np.int8)
        return Encoded((scales, steps.reshape(-1)[: len(vector)]))

    def decode(self, encoded: Encoded, elements: int) -> Floats:
        """Return the steps times the scales."""
        scales, steps = encoded.parts
        decoded: Floats = steps.astype(np.float32) * np.repeat(scales, self.bucket)[:elements]
        return decoded
