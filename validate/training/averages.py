"""Bulk-synchronous methods that average the whole gradient after the backward pass.

By the library's own all-reduce, by a schedule of dpsim's, or naively on rank 0's CPU.
"""

from __future__ import annotations

from typing import ClassVar

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor

from dpsim.collectives import algorithm
from validate.collectives import Executor
from validate.training.method import Method, Synchronous
from validate.training.worker import Worker


class Library(Synchronous):
    """Bulk-synchronous, each gradient averaged by ``dist.all_reduce``."""

    kind: ClassVar[str] = "library"

    def average(self, worker: Worker, gradient: Tensor) -> None:
        dist.all_reduce(gradient, group=worker.world.group)
        gradient /= worker.workers


class Scheduled(Method):
    """Bulk-synchronous, each gradient averaged by an all-reduce schedule over messages.

    The schedule is the very object that the simulator times.
    """

    kind: ClassVar[str] = "schedule"
    algorithm: str = Field(default="ring", description="Name of the all-reduce algorithm.")

    def run(self, worker: Worker) -> None:
        """Train; the gradient is summed by the schedule, then divided."""
        gradient = worker.replica.gradient
        schedule = algorithm(self.algorithm).schedule(worker.workers)
        executor = Executor(schedule, gradient.numel(), worker.world, gradient.dtype)
        for step in worker.steps():
            worker.compute_gradient(step)
            with worker.part("communication"):
                executor.run(gradient, gradient)
                gradient /= worker.workers
            worker.update()


class ThroughHost(Synchronous):
    """Averages gradients on rank 0's CPU: each is copied there, and the mean is broadcast."""

    via_host_memory: ClassVar[bool] = True
    kind: ClassVar[str] = "through-host"

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
