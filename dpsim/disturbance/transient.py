"""Transient slow-downs: occasionally a worker, node or rack computes slower for a while.

Each worker or group is a Markov chain: it becomes slow with probability ``rate`` at each step, and
recovers with probability 1 / mean_steps. It starts in its long-run state, slow with probability
rate mean_steps / (1 + rate mean_steps), so it needs no warm-up.

Defaults: in the five runs on 8 H100 (see jitter.py) steps of 1.03 to 1.3 medians begin 0.001,
0.006, 0.009, 0.010 and 0.078 times a step (the last is a clock's noise: a long step is followed by
a short one), 1.04-1.07 medians long, and they come singly: 1.02 steps in a row. Median: 0.009,
1.05, 1 step. Whole steps were timed, so the rate is that of 8 workers together: 0.009 / 8 = 0.0011
a worker. Long slow-downs are not in these tables: one job on two DGX-1 has blocks of 10 steps at
1.23 and 1.32 medians in 2 of 10 blocks, the first of them the very first, too few to fit.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from pydantic import Field

from dpsim.disturbance.groups import GroupedDisturbance
from dpsim.disturbance.jitter import Factors
from dpsim.disturbance.random_streams import random_streams


class TransientConfig(GroupedDisturbance):
    """Workers, nodes or racks that are slow for a while."""

    rate: Annotated[float, Field(ge=0, le=1)] = Field(
        default=0.0011, description="Probability that a slow-down begins in a step."
    )
    mean_steps: Annotated[float, Field(ge=1, le=1e9)] = Field(
        default=1.0, description="Mean duration of a slow-down, in steps."
    )
    factor: Annotated[float, Field(ge=1e-6, le=1e6)] = Field(
        default=1.05, description="Compute time during a slow-down, relative to normal."
    )

    @property
    def slow_share(self) -> float:
        """The long-run fraction of slow steps."""
        return self.rate * self.mean_steps / (1 + self.rate * self.mean_steps)

    def factors(
        self, workers: int, steps: int, seed: int, per_node: int | Sequence[int], entry: int = 0
    ) -> Factors:
        """Return the factors on compute time, shape (steps, workers).

        ``entry`` distinguishes several such disturbances.
        """
        groups = self.groups(workers, per_node)
        streams = random_streams(seed, groups.max() + 1, "transient", entry)
        # Shape (steps, groups). A chain needs its previous state, so only groups are vectorised.
        draws = np.stack([generator.random(steps) for generator in streams], axis=1)

        stays_slow = 1 - 1 / self.mean_steps
        slow = np.empty(draws.shape, dtype=np.bool_)
        slow[:1] = draws[:1] < self.slow_share  # the long-run state: no warm-up is needed
        for step in range(1, steps):
            chance = np.where(slow[step - 1], stays_slow, self.rate)
            slow[step] = draws[step] < chance
        return np.where(slow, self.factor, 1.0)[:, groups]
