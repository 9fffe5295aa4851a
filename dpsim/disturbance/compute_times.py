"""All that disturbs compute times, put together: one factor for each step and worker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpsim.disturbance.jitter import Factors, Jitter
from dpsim.disturbance.slow_workers import SlowWorkersConfig
from dpsim.disturbance.transient import TransientConfig


def compute_factors(
    workers: int,
    steps: int,
    seed: int,
    per_node: int | Sequence[int],
    *,
    jitter: Jitter | None = None,
    slow: Sequence[SlowWorkersConfig] = (),
    transient: Sequence[TransientConfig] = (),
) -> Factors:
    """Factors on compute time, shape (steps, workers): the product of all disturbances.

    ``per_node``: workers of each node, or of node 0, 1, ... Every worker, or group that is struck
    together, has a stream of its own for each disturbance: its draws depend neither on the others
    nor on the other disturbances. Raises DpsimError where a slow worker does not exist.
    """
    product = np.ones((steps, workers))
    if jitter is not None:
        product = jitter.factors(workers, steps, seed, per_node)
    for entry, slowed in enumerate(slow):
        product = product * slowed.factors(workers, seed, per_node, entry)
    for entry, chain in enumerate(transient):
        product = product * chain.factors(workers, steps, seed, per_node, entry)
    return product
