"""Equal shards of the data: the samples that a worker takes in each step.

Each epoch is a new permutation of all samples, which all workers draw from the seed and the epoch.
Worker r of m takes every m-th sample from the r-th on, in batches. Samples that do not fill a batch
on every worker are left out of that epoch. The shards of a step are therefore disjoint and equal,
and the mean of the workers' mean gradients is the mean over the whole batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import DistributedSampler

from dpsim.base.errors import DpsimError


@dataclass(frozen=True, slots=True)
class Shard:
    """The part of ``samples`` that ``worker`` of ``workers`` sees, ``batch`` of them per step."""

    samples: int
    worker: int
    workers: int
    batch: int
    seed: int

    def __post_init__(self) -> None:
        if self.steps_per_epoch < 1:
            least = self.workers * self.batch
            raise DpsimError(
                f"workers x batch must be at most the {self.samples} samples, but got {least}"
            )

    @property
    def steps_per_epoch(self) -> int:
        """The number of whole batches of samples that every worker gets."""
        return self.samples // self.workers // self.batch

    def indices(self, step: int) -> Tensor:
        """Return the samples of step ``step``, counted from 0, (batch,)."""
        epoch, batch_index = divmod(step, self.steps_per_epoch)
        # Draw the whole epoch each time, so that steps can come in any order without kept state.
        sampler: Any = DistributedSampler(
            range(self.samples), self.workers, self.worker, seed=self.seed, drop_last=True
        )
        sampler.set_epoch(epoch)
        return torch.tensor([*sampler][batch_index * self.batch : (batch_index + 1) * self.batch])
