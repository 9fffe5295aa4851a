"""QSGD: elements are rounded at random to a few levels of their bucket's norm, without bias.

An element's |x| / norm is rounded to one of the two nearest levels 0, 1/s, .., 1, with
probabilities that make its expectation |x| / norm. With the Euclidean norm of buckets of d elements
the expected squared error is at most min(d / s**2, sqrt(d) / s) times the vector's square; an
element is off by at most norm / s. Sign and level are sent together in ceil(log2(2 s + 1)) bits,
and 4 bytes per bucket hold the norm (the paper's Elias code is shorter if most levels are 0, but
its length depends on the data). Payloads are gathered. Encoding is one pass in, because a bucket
stays in shared memory between its norm and the rounding, and random numbers are made on the fly.
Source: Alistarh et al., "QSGD: communication-efficient SGD via gradient quantization and encoding",
NIPS 2017 (buckets of 512, largest magnitude as norm in its experiments).
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

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


class QsgdConfig(QuantisingCodec):
    """Elements are rounded stochastically to levels of their bucket's norm."""

    label: ClassVar[str] = "QSGD"

    kind: Literal["qsgd"] = Field(
        description="Elements are rounded at random to levels of their bucket's norm; gathered."
    )
    levels: Annotated[int, Field(ge=1, le=127)] = Field(
        default=7, description="Number of levels above 0; 7 levels and a sign fit in 4 bits."
    )
    bucket: PositiveInt = Field(default=512, description="Number of elements that share a norm.")
    norm: Literal["max", "l2"] = Field(
        default="max", description="Norm of a bucket: largest magnitude, or Euclidean."
    )

    @property
    def bits(self) -> int:
        """Bits of an element: a sign and a level."""
        # For the numbers 0 to 2 s.
        return (2 * self.levels).bit_length()

    def wire_bytes(self, elements: int) -> int:
        """Return ``bits`` per element, 4 bytes per bucket."""
        return packed_bytes(elements, self.bits) + FLOAT * ceil_div(elements, self.bucket)

    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """Return two parts: a float32 norm per bucket, packed numbers level + s or s - level."""
        rows = in_buckets(vector, self.bucket)
        if self.norm == "max":
            norms = np.abs(rows).max(axis=1)
        else:
            norms = np.linalg.norm(rows, axis=1).astype(np.float32)
        shares = safe_divide(rows, norms[:, None])
        exact = (shares * self.levels).reshape(-1)[: len(vector)]
        # The floor of x + u, u uniform in [0, 1), has the expectation x, also below 0. If the norm
        # was rounded down, an element may lie just beyond the last level.
        rounded = np.floor(exact + generator.random(len(vector))).clip(-self.levels, self.levels)
        return Encoded((norms, pack((rounded + self.levels).astype(np.uint8), self.bits)))

    def decode(self, encoded: Encoded, elements: int) -> Floats:
        """Return the levels times the norms."""
        norms, packed = encoded.parts
        levels = unpack(packed, self.bits, elements).astype(np.float32) - np.float32(self.levels)
        decoded: Floats = (
            levels / np.float32(self.levels) * np.repeat(norms, self.bucket)[:elements]
        )
        return decoded
