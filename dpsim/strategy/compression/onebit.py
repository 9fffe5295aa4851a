"""1-bit: the sign of each element, and the means of each column's positive and negative ones.

The means minimise the column's squared error, so that an encoded vector is never further from the
original than 0 is; the error is fed back. The payload has 1 bit per element and 8 bytes per column.
Columns of a flat vector are its successive runs of ``column`` elements (the paper uses the columns
of weight matrices, one per neuron). Payloads are gathered. Encoding is one pass in, because a
column stays in shared memory. Source: Seide, Fu, Droppo, Li and Yu, "1-bit stochastic gradient
descent and its application to data-parallel distributed training of speech DNNs", Interspeech 2014.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field, PositiveInt

from dpsim.strategy.compression.codec import FLOAT, Encoded, Floats, QuantisingCodec
from dpsim.strategy.compression.packing import ceil_div, in_buckets, packed_bytes


class OneBitConfig(QuantisingCodec):
    """Signs and two means per column are sent."""

    label: ClassVar[str] = "1-bit"

    kind: Literal["onebit"] = Field(
        description="Signs and two means per column are sent, with error feedback; gathered."
    )
    column: PositiveInt = Field(default=512, description="Number of elements that share two means.")
    error_feedback: bool = Field(
        default=True,
        description="Error feedback: the encoding error is added to the next step's vector.",
    )

    def wire_bytes(self, elements: int) -> int:
        """Return 1 bit per element, 8 bytes per column."""
        return packed_bytes(elements, 1) + 2 * FLOAT * ceil_div(elements, self.column)

    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """Return two parts: float32 means of minus and plus, (columns, 2), and packed signs.

        A sign is 1 for elements of at least 0.
        """
        rows = in_buckets(vector, self.column)
        # Zeros that pad the last row must not pull its mean towards 0.
        inside = in_buckets(np.ones_like(vector), self.column) > 0
        plus = (rows >= 0) & inside
        means = np.stack([_means(rows, inside & ~plus), _means(rows, plus)], axis=1)
        return Encoded((means, np.packbits(vector >= 0)))

    def decode(self, encoded: Encoded, elements: int) -> Floats:
        """Return the column mean of each element's sign."""
        means, signs = encoded.parts
        columns = np.arange(elements) // self.column
        decoded: Floats = means[columns, np.unpackbits(signs, count=elements)]
        return decoded


def _means(rows: Floats, chosen: np.ndarray[tuple[int, ...], np.dtype[np.bool_]]) -> Floats:
    """Return each row's mean over its chosen elements, 0 if there are none."""
    sums = rows.sum(axis=1, where=chosen, dtype=np.float64)
    counts = np.maximum(chosen.sum(axis=1), 1)
    means: Floats = (sums / counts).astype(np.float32)
    return means
