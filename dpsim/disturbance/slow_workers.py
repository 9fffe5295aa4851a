"""Slow workers: some compute at a fixed factor of the time of others for the whole run.

The default factor is the mean slow-down of the jobs that had stragglers at all (by 1.1 or more),
42.5 % of 3,079 jobs of 128 GPUs and more: 1.28 (Lin et al., "Understanding stragglers in large
model training using what-if analysis", OSDI 2025). Where a few workers were the cause, 1.7 % of the
jobs, it was 3.04. What fraction of workers is slow the published tables do not say: the field has
no default. Equal placements of one job on a cloud's T4 nodes differ by 3.5 % (median coefficient of
variation over 467 groups) and 8.8 % (90th percentile).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, model_validator

from dpsim.base.errors import DpsimError
from dpsim.disturbance.groups import GroupedDisturbance
from dpsim.disturbance.jitter import Factors
from dpsim.disturbance.random_streams import random_streams


class SlowWorkersConfig(GroupedDisturbance):
    """Workers that are slow from the first step to the last: those named, or a random fraction."""

    workers: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)] | None = Field(
        default=None, description="Their ranks, instead of a fraction."
    )
    fraction: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="The chance of each worker (node, rack) to be slow, instead of ranks.",
    )
    factor: Annotated[float, Field(ge=1e-6, le=1e6)] = Field(
        default=1.28, description="Their compute time over that of others."
    )

    @model_validator(mode="after")
    def _one_of_two(self) -> SlowWorkersConfig:
        if (self.workers is None) == (self.fraction is None):
            raise ValueError("one of workers and fraction must be given")
        if self.workers is not None and self.per != "worker":
            raise ValueError(f"per must be worker where workers are named, but got {self.per}")
        return self

    def factors(
        self, workers: int, seed: int, per_node: int | Sequence[int], entry: int = 0
    ) -> Factors:
        """Each worker's factor, shape (workers,). ``entry`` tells several such disturbances apart.

        Raises DpsimError where a named worker does not exist.
        """
        if self.workers is None:
            groups = self.groups(workers, per_node)
            is_slow = self._drawn(groups.max() + 1, seed, entry)[groups]
        elif max(self.workers) < workers:
            is_slow = np.isin(np.arange(workers), self.workers)
        else:
            raise DpsimError(
                f"slow workers must be ranks below {workers}, but got {max(self.workers)}"
            )
        return np.where(is_slow, self.factor, 1.0)

    def _drawn(self, groups: int, seed: int, entry: int) -> NDArray[np.bool_]:
        """Which groups are slow."""
        # Drawn as numbers and compared: with a larger fraction the same groups are slow, and others
        # too.
        draws = [stream.random() for stream in random_streams(seed, groups, "slow", entry)]
        return np.array(draws) < (self.fraction or 0.0)
