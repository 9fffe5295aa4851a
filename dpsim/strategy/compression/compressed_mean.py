"""Workers that exchange compressed vectors step after step, with error feedback.

The encoding error of a worker's vector is kept and added to its next one, so that nothing is lost
over time: the sum of the sent vectors is the sum of the vectors less the last residual.
Source: Seide et al., "1-bit stochastic gradient descent", Interspeech 2014; proof of convergence
for contractions: Karimireddy et al., "Error feedback fixes SignSGD", ICML 2019.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsim.strategy.compression.codec import Codec, Encoded, Floats


class CompressedMean:
    """The state of ``workers`` that average vectors of ``elements`` through ``codec``.

    The state is their residuals, random streams and last payloads. Each worker's stream is spawned
    from ``seed``; codecs with common randomness use the same stream on every worker.
    """

    def __init__(self, codec: Codec, workers: int, elements: int, seed: int) -> None:
        self.codec = codec
        self.residuals: Floats = np.zeros((workers, elements), dtype=np.float32)
        # Philox streams of one seed are independent for different spawn keys.
        keys = [0] * workers if codec.common_randomness else range(workers)
        self._generators = [
            np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(k,))))
            for k in keys
        ]
        self._previous: Sequence[Encoded] | None = None

    def mean(self, vectors: Floats) -> Floats:
        """Return the result on every worker after a step, (elements,).

        ``vectors``, (workers, elements), are the workers' vectors before it.
        """
        corrected = vectors + self.residuals if self.codec.feeds_back else vectors
        done = self.codec.exchange(corrected, self._generators, self._previous)
        if self.codec.feeds_back:
            # The error of the worker's own vector, not of the mean: others' errors are in their
            # residuals.
            self.residuals = corrected - done.locals
        self._previous = done.encoded
        return done.mean

    def __repr__(self) -> str:
        return f"<CompressedMean of {self.residuals.shape[0]} workers by {self.codec!r}>"
