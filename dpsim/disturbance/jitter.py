"""Jitter: each worker's compute time varies from step to step by a random factor of mean 1."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from dpsim.config import Config


class LognormalJitterConfig(Config):
    """The factor is lognormal, drawn anew for every worker and step."""

    kind: Literal["lognormal"] = Field(description="Compute times vary by a lognormal factor of mean 1, per worker and step.")
    sigma: float = Field(default=0.05, ge=0, le=3, description="Standard deviation of the factor's logarithm.")

    def factors(self, workers: int, steps: int, seed: int) -> NDArray[np.float64]:
        """Factors on compute time, shape (steps, workers).

        Every worker has a random stream of its own, spawned from ``seed``: its draws do not depend on how many others there are.
        """
        children = np.random.SeedSequence(seed).spawn(workers)
        draws = [np.random.Generator(np.random.Philox(child)).standard_normal(steps) for child in children]
        return np.exp(self.sigma * np.stack(draws, axis=1) - self.sigma**2 / 2)
