"""Averages gradients by the library's own all-reduce: one call for all, after backward."""

from __future__ import annotations

from typing import Literal

import torch.distributed as dist
from pydantic import Field
from torch import Tensor

from validate.training.method import Synchronous
from validate.training.worker import Worker


class Library(Synchronous):
    """Bulk-synchronous, each gradient averaged by ``dist.all_reduce``."""

    kind: Literal["library"] = Field(
        default="library", description="Gradients are averaged by the library's own all-reduce."
    )

    def average(self, worker: Worker, gradient: Tensor) -> None:
        dist.all_reduce(gradient, group=worker.world.group)
        gradient /= worker.workers
