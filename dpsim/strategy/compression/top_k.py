"""Top-k: the k elements of largest magnitude are sent with their indices.

The others stay in the residual. k = ceil(density x elements), with 4 bytes for the place and 4 for
the value. At least k / elements of the vector's square is kept. Payloads are gathered, because
places differ between workers. Encoding selects by radix, 4 passes of 8 bits over float32 keys, then
counts and collects: 6 passes in all, like torch.topk's multi-block kernels. With feedback, 3 passes
first form the sum with the residual. Decoding clears the mean and adds each payload at scattered
places, with 32 bytes read and written for each element. Source: Aji and Heafield, "Sparse
communication for distributed gradient descent", EMNLP 2017 (1 %); Lin et al., "Deep gradient
compression", ICLR 2018 (0.1 %); Alabi et al., "Fast k-selection algorithms for graphics processing
units", JEA 17, 2012.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpsim.strategy.compression.codec import FLOAT, SECTOR, Encoded, Floats, LossyCodec

_SELECT_PASSES = 6


def kept(density: float, elements: int) -> int:
    """Return how many of ``elements`` a density keeps: rounded up, at least one."""
    return max(1, min(elements, math.ceil(density * elements)))


class SparseCodec(LossyCodec):
    """A codec that sends some of the elements with their places. Payloads are gathered."""

    sums_in_flight: ClassVar[bool] = False

    error_feedback: bool = Field(
        default=True,
        description="Error feedback: the encoding error is added to the next step's vector.",
    )

    @abstractmethod
    def count(self, elements: int) -> int:
        """Return how many of ``elements`` are sent."""

    def wire_bytes(self, elements: int) -> int:
        """Return 8 bytes per element that is sent."""
        # A value and its place have the same width.
        return 2 * FLOAT * self.count(elements)

    def decode_traffic(self, elements: int, payloads: int = 1) -> float:
        """Return the bytes: one pass out, then payloads in and scattered additions."""
        scattered = 2 * SECTOR * self.count(elements)
        return float(FLOAT * elements + payloads * (self.wire_bytes(elements) + scattered))

    def decode(self, encoded: Encoded, elements: int) -> Floats:
        """Return the values at their places, 0 elsewhere."""
        places, values = encoded.parts
        vector = np.zeros(elements, dtype=np.float32)
        vector[places] = values
        return vector


class TopKConfig(SparseCodec):
    """The largest elements are sent with their indices."""

    kind: Literal["top-k"] = Field(
        description="The largest elements are sent with indices and error feedback; gathered."
    )
    density: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.01, description="Fraction of elements that are sent."
    )

    def count(self, elements: int) -> int:
        """Return the number of elements that the density keeps."""
        return kept(self.density, elements)

    def encode_traffic(self, elements: int) -> float:
        """Return the bytes: 6 passes in, 3 more with feedback, the payload out."""
        passes = _SELECT_PASSES + (3 if self.error_feedback else 0)
        return float(passes * FLOAT * elements + self.wire_bytes(elements))

    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """Return two parts: uint32 places in ascending order, float32 values."""
        smaller = len(vector) - self.count(len(vector))
        # A partition finds the largest in linear time, but in no particular order.
        largest = np.argpartition(np.abs(vector), smaller)[smaller:]
        places = np.sort(largest)
        return Encoded((places.astype(np.uint32), vector[places]))
