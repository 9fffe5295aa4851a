"""Slow workers: some take a fixed factor of the others' compute time for the whole run.

The default factor is the mean slow-down of the jobs that had stragglers at all (by 1.1 or more),
42.5 % of 3,079 jobs of 128 GPUs and more: 1.28 (Lin et al., "Understanding stragglers in large
model training using what-if analysis", OSDI 2025). In the 1.7 % of the jobs in which a few workers
were the cause, it was 3.04. The published tables do not say what fraction of workers is slow, so
``fraction`` has no default. Equal placements of one job on a cloud's T4 nodes differ by 3.5 %
(median coefficient of variation over 467 groups) and 8.8 % (90th percentile).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, NonNegativeInt, model_validator

from dpsim.base.errors import DpsimError
from dpsim.disturbance.groups import GroupedDisturbance, Indices, node_of
from dpsim.disturbance.jitter import Factors
from dpsim.disturbance.random_streams import random_streams


class SlowWorkersConfig(GroupedDisturbance):
    """Permanently slow workers: named ones, or a random fraction."""

    workers: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)] | None = Field(
        default=None, description="Ranks of the slow workers, instead of a fraction."
    )
    nodes: Annotated[tuple[NonNegativeInt, ...], Field(min_length=1)] | None = Field(
        default=None, description="Numbers of slow nodes, instead of ranks."
    )
    fraction: Annotated[float, Field(ge=0, le=1)] | None = Field(
        default=None,
        description="Probability that a worker (node, rack) is slow, instead of ranks.",
    )
    factor: Annotated[float, Field(ge=1e-6, le=1e6)] = Field(
        default=1.28, description="Compute time of slow workers, relative to the others'."
    )

    @model_validator(mode="after")
    def _check_selection(self) -> SlowWorkersConfig:
        named = [
            name for name in ("workers", "nodes", "fraction") if getattr(self, name) is not None
        ]
        if len(named) != 1:
            got = " and ".join(named) or "none"
            raise ValueError(f"must have one of workers, nodes and fraction, but got {got}")
        for name, given in (("workers", self.workers), ("nodes", self.nodes)):
            if given is not None and self.per != "worker":
                raise ValueError(f"per must be left out where {name} are named, but got {self.per}")
        return self

    def factors(
        self, workers: int, seed: int, per_node: int | Sequence[int], entry: int = 0
    ) -> Factors:
        """Return each worker's factor, shape (workers,).

        ``entry`` distinguishes several such disturbances.

        Raises DpsimError if a named worker or node does not exist.
        """
        return np.where(self._is_slow(workers, seed, per_node, entry), self.factor, 1.0)

    def _is_slow(
        self, workers: int, seed: int, per_node: int | Sequence[int], entry: int
    ) -> NDArray[np.bool_]:
        if self.workers is not None:
            return _among(self.workers, np.arange(workers), f"[{entry}].workers: must be ranks")
        if self.nodes is not None:
            return _among(
                self.nodes, node_of(workers, per_node), f"[{entry}].nodes: must be numbers"
            )
        groups = self.groups(workers, per_node)
        streams = random_streams(seed, groups.max() + 1, "slow", entry)
        draws = np.array([stream.random() for stream in streams])
        # With a larger fraction the same groups are slow, and others too.
        return (draws < (self.fraction or 0.0))[groups]

    def why_none_is_slow(
        self, workers: int, seed: int, per_node: int | Sequence[int], entry: int = 0
    ) -> str | None:
        """Return a warning if the random draw selected no worker, otherwise None."""
        if not self.fraction or self._is_slow(workers, seed, per_node, entry).any():
            return None
        groups = int(self.groups(workers, per_node).max()) + 1
        return (
            f"disturbance.slow[{entry}] slows no worker: with seed {seed} a chance of "
            f"{self.fraction:g} draws none of {groups:,} {self.per}s; name workers or nodes instead"
        )


def _among(named: tuple[int, ...], numbers: Indices, rule: str) -> NDArray[np.bool_]:
    """Return which numbers are ``named``. Raises DpsimError, with ``rule``, if one is unknown."""
    if max(named) > numbers[-1]:
        raise DpsimError(f"disturbance.slow{rule} below {numbers[-1] + 1}, but got {max(named)}")
    return np.isin(numbers, named)
