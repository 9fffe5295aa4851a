"""PowerSGD: one step of power iteration on the vector as a matrix M gives thin factors, M ~ P Q'.

P = M Q is averaged over workers and its columns are made orthonormal; then Q = M' P is averaged.
These are two successive all-reduces of linear functions of M, so they sum in flight. Q starts from
its last value (the first time from the same random one on every worker); a matrix of rank at most
``rank`` is restored exactly. A flat vector of n elements is shaped row by row into ceil(sqrt n)
rows, padded with zeros, as torch's batched_powerSGD_hook does with a bucket (the paper takes each
weight tensor as its own matrix, which keeps more at equal rank). The payload has 4 rank (rows +
columns) bytes; if that is no less than 4 n, the vector is sent unchanged, in one collective.

Encoding reads M twice (3 more passes form the sum with the residual) and takes 4 n rank FLOP for
the products and 2 rows rank**2 for the orthonormal columns; decoding writes M with 2 n rank FLOP,
and with feedback reads and writes the residual. Source: Vogels, Karimireddy and Jaggi, "PowerSGD:
practical low-rank gradient compression for distributed optimization", NeurIPS 2019 (rank 2 for
ResNet-18).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpsim.strategy.compression.codec import FLOAT, DecodedMean, Encoded, Floats, LossyCodec
from dpsim.strategy.compression.packing import ceil_div, in_buckets


class PowerSgdConfig(LossyCodec):
    """The vector is sent as two low-rank factors."""

    label: ClassVar[str] = "PowerSGD"
    sums_in_flight: ClassVar[bool] = True
    chained: ClassVar[bool] = True
    common_randomness: ClassVar[bool] = True

    kind: Literal["powersgd"] = Field(
        description="The vector, as a matrix, is sent as two low-rank factors, one after the other."
    )
    rank: Annotated[int, Field(ge=1, le=1024)] = Field(
        default=2, description="Rank: columns of each factor."
    )
    error_feedback: bool = Field(
        default=True,
        description="Error feedback: the encoding error is added to the next step's vector.",
    )

    def shape(self, elements: int) -> tuple[int, int]:
        """Return the rows and columns of the matrix that a flat vector becomes."""
        # The integer square root, rounded up without floats.
        rows = math.isqrt(elements - 1) + 1
        return rows, ceil_div(elements, rows)

    def stages(self, elements: int) -> tuple[int, ...]:
        """Return the bytes of P, then of Q; or of the vector itself if that is no more."""
        factors = tuple(FLOAT * self.rank * side for side in self.shape(elements))
        return factors if sum(factors) < FLOAT * elements else (FLOAT * elements,)

    def wire_bytes(self, elements: int) -> int:
        """Return 4 rank (rows + columns), at most 4 per element."""
        return sum(self.stages(elements))

    def _factored(self, elements: int) -> bool:
        return len(self.stages(elements)) == 2

    def encode_traffic(self, elements: int) -> float:
        """Return the bytes: two passes in, the factors out and in; 3 more with feedback."""
        if not self._factored(elements):
            return 0.0
        passes = 5 if self.error_feedback else 2
        return float(passes * FLOAT * elements + 2 * self.wire_bytes(elements))

    def decode_traffic(self, elements: int, payloads: int = 1) -> float:
        """Return the bytes: the factors in, one pass out; with feedback the residual in and out."""
        if not self._factored(elements):
            return 0.0
        passes = 3 if self.error_feedback else 1
        return float(passes * FLOAT * elements + self.wire_bytes(elements))

    def encode_flop(self, elements: int) -> float:
        """Return the FLOP of two products with the matrix, and of the orthonormal columns."""
        if not self._factored(elements):
            return 0.0
        rows, _ = self.shape(elements)
        orthonormal = 2.0 * rows * self.rank**2
        # Twice 2 n r: the matrix times Q, and then its transpose times P.
        return 4.0 * elements * self.rank + orthonormal

    def decode_flop(self, elements: int, payloads: int = 1) -> float:
        """Return the FLOP of one product of the factors."""
        return 2.0 * elements * self.rank if self._factored(elements) else 0.0

    def encode(
        self, vector: Floats, generator: np.random.Generator, previous: Encoded | None = None
    ) -> Encoded:
        """Return two parts, of this vector alone: orthonormal P (rows, rank) and Q (columns, rank).

        Returns one part, the vector, if the factors are no smaller.
        """
        return self._joint(vector[None], generator, previous)

    def decode(self, encoded: Encoded, elements: int) -> Floats:
        """Return P Q', flat."""
        if len(encoded.parts) == 1:
            vector: Floats = encoded.parts[0]
            return vector
        p, q = encoded.parts
        product: Floats = (p @ q.T).reshape(-1)[:elements]
        return product

    def exchange(
        self,
        vectors: Floats,
        generators: Sequence[np.random.Generator],
        previous: Sequence[Encoded] | None = None,
    ) -> DecodedMean:
        """Return the factors of the mean.

        The error of a worker's vector is its distance from the decoded mean.
        """
        workers, elements = vectors.shape
        encoded = self._joint(vectors, generators[0], previous[0] if previous else None)
        mean = self.decode(encoded, elements)
        # Algorithm 2 of the paper: e = vector - decompressed mean, since no worker knows its own
        # contribution to the two averages.
        own = np.broadcast_to(mean, vectors.shape) if self._factored(elements) else vectors
        return DecodedMean(mean, own, (encoded,) * workers)

    def _joint(
        self, vectors: Floats, generator: np.random.Generator, previous: Encoded | None
    ) -> Encoded:
        """Return the factors of the workers' mean, from the two averages of the algorithm."""
        elements = vectors.shape[1]
        if not self._factored(elements):
            return Encoded((vectors.mean(axis=0),))
        columns = self.shape(elements)[1]
        matrices = [in_buckets(vector, columns) for vector in vectors]
        # Warm start: gradients change slowly, so successive training steps act as further power
        # iterations.
        if previous:
            q = previous.parts[1]
        else:
            q = generator.standard_normal((columns, self.rank), dtype=np.float32)
        mean_p = np.mean([matrix @ q for matrix in matrices], axis=0)
        p = np.linalg.qr(mean_p)[0]
        mean_q = np.mean([matrix.T @ p for matrix in matrices], axis=0)
        return Encoded((p, mean_q))
