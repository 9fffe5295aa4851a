"""The naive way through the CPU.

Every gradient is copied to host memory and gathered at rank 0, and the mean is broadcast.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor

from validate.training.method import Synchronous
from validate.training.worker import Worker


class ThroughHost(Synchronous):
    """Averages gradients on rank 0's CPU."""

    by_host: ClassVar[bool] = True
    kind: Literal["through-host"] = Field(
        default="through-host", description="Rank 0's CPU averages gradients for everybody."
    )

    def average(self, worker: Worker, gradient: Tensor) -> None:
        """Copy to the host, gather at rank 0, broadcast the mean, and copy it to the device."""
        # A copy even on a CPU, so that the path is the same as from a GPU.
        on_host = gradient.to("cpu", copy=True)
        # Only the gathering rank may pass a list: torch refuses it elsewhere.
        gathered = None
        if worker.rank == 0:
            gathered = [torch.empty_like(on_host) for _ in range(worker.workers)]
        dist.gather(on_host, gathered, dst=0, group=worker.host_group)
        if gathered is not None:
            on_host = torch.stack(gathered).mean(dim=0)
        dist.broadcast(on_host, src=0, group=worker.host_group)
        gradient.copy_(on_host)
