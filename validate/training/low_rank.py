"""PowerSGD between real workers: two all-reduces, the second computed from the first's result.

P = M Q is averaged and its columns made orthonormal; Q = M' P is averaged; M is about P Q'. The
matrix M is formed from the flat gradient as in `dpsim.strategy.compression.PowerSgdConfig`, which
also names the source.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from dpsim.strategy.compression import Codec, Encoded, PowerSgdConfig

Floats = NDArray[np.float32]


class LowRank:
    """One worker's side; ``mean_of`` returns the mean of a matrix over all workers.

    ``generator`` is in the same state on all of them.
    """

    def __init__(
        self,
        codec: PowerSgdConfig,
        generator: np.random.Generator,
        mean_of: Callable[[Floats], Floats],
    ) -> None:
        self.codec, self._generator, self._mean_of = codec, generator, mean_of
        self._q: Floats | None = None

    def mean(self, vector: Floats) -> tuple[Floats, Floats]:
        """Return the mean of all workers' vectors, and the part of this worker's that was sent."""
        # Sent unchanged if too small for two factors to be smaller.
        if len(self.codec.stages(len(vector))) == 1:
            return self._mean_of(vector), vector
        matrix = self._matrix(vector)
        if self._q is None:
            self._q = self._generator.standard_normal(
                (matrix.shape[1], self.codec.rank), dtype=np.float32
            )
        # Every worker decomposes the same mean, and so has the same P without sending it.
        p = np.linalg.qr(self._mean_of(matrix @ self._q))[0]
        # Warm start: the next step's power iteration begins with this Q.
        self._q = self._mean_of(matrix.T @ p)
        mean = self.codec.decode(Encoded((p, self._q)), len(vector))
        return mean, mean

    def _matrix(self, vector: Floats) -> Floats:
        rows, columns = self.codec.shape(len(vector))
        padded = np.zeros(rows * columns, dtype=np.float32)
        padded[: len(vector)] = vector
        return padded.reshape(rows, columns)


def low_rank(
    codec: Codec, generator: np.random.Generator, mean_of: Callable[[Floats], Floats]
) -> LowRank | None:
    """Return a worker's side of ``codec`` if it is PowerSGD, which needs two exchanges."""
    return LowRank(codec, generator, mean_of) if isinstance(codec, PowerSgdConfig) else None
