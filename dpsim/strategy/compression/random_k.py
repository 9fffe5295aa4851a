"""Random-k: k elements at indices that all workers draw alike, so only values are sent.

They add up in flight. k = ceil(density x elements), 4 bytes each. With feedback the values are sent
unchanged, and in expectation k / elements of the vector's square is kept. Without it they are
multiplied by elements / k, which makes the mean unbiased (and the variance elements / k - 1 times
the square: both together would diverge). Encoding reads k scattered elements, 32 bytes each;
drawing the places is not counted. Source: Stich, Cordonnier and Jaggi, "Sparsified SGD with
memory", NeurIPS 2018; Wangni et al., "Gradient sparsification for communication-efficient
distributed optimization", NeurIPS 2018 (unbiased); common seed: Vogels et al., "PowerSGD", NeurIPS
2019.
"""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpsim.strategy.compression.codec import FLOAT, SECTOR, Encoded, Floats, LossyCodec
from dpsim.strategy.compression.top_k import kept


class RandomKConfig(LossyCodec):
    """Elements at random indices are sent, the same indices on every worker."""

    sums_in_flight: ClassVar[bool] = True
    common_randomness: ClassVar[bool] = True

    kind: Literal["random-k"] = Field(
        description="Elements at random indices are sent, the same indices on every worker."
    )
    density: Annotated[float, Field(gt=0, le=1)] = Field(
        default=0.01, description="Fraction of elements that are sent."
    )
    error_feedback: bool = Field(
        default=True,
        description=(
            "Error feedback: the encoding error is added to the next step's vector; otherwise "
            "values are scaled up."
        ),
    )

    def wire_bytes(self, elements: int) -> int:
        """Return 4 bytes per kept element."""
        return FLOAT * kept(self.density, elements)

    def encode_traffic(self, elements: int) -> float:
        """Return the bytes: scattered elements in (at most a pass) and out.

        With feedback, 3 passes form the sum, and kept places are cleared.
        """
        touched = min(SECTOR * kept(self.density, elements), FLOAT * elements)
        residual = 3 * FLOAT * elements + touched if self.error_feedback else 0
        return float(touched + self.wire_bytes(elements) + residual)

    def decode_traffic(self, elements: int, payloads: int = 1) -> float:
        """Return the bytes: one pass out, the sum in, scattered elements out."""
        touched = min(SECTOR * kept(self.density, elements), FLOAT * elements)
        return float(FLOAT * elements + self.wire_bytes(elements) + touched)

    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """Return one part: float32 values; all workers know the places."""
        count = kept(self.density, len(vector))
        places = generator.choice(len(vector), size=count, replace=False, shuffle=False)
        # Feedback requires a contraction, which scaling up would prevent (Stich et al.).
        scale = 1.0 if self.error_feedback else len(vector) / count
        return Encoded((vector[places] * np.float32(scale),), (places,))

    def decode(self, encoded: Encoded, elements: int) -> Floats:
        """Return the values at their places, 0 elsewhere."""
        vector = np.zeros(elements, dtype=np.float32)
        vector[encoded.known[0]] = encoded.parts[0]
        return vector
