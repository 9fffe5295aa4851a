"""References for the other methods: torch's data parallelism, and one process on whole batches."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from pydantic import Field
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from dpsim.base.units import PositiveBytes
from dpsim.strategy.compression import CompressionConfig, NoCompressionConfig
from validate.training.hooks import CodecHook, TimedAverage, arrived_at_once, by_hook
from validate.training.method import Method, silent_group
from validate.training.worker import Worker

_DEFAULT_BUCKET_BYTES = 25 * 2.0**20  # torch's default size of a bucket


class Ddp(Method):
    """torch's DistributedDataParallel, with its own buckets, averages and overlap."""

    kind: ClassVar[str] = "ddp"
    flat: ClassVar[bool] = False
    bucket_size: PositiveBytes = Field(
        default=_DEFAULT_BUCKET_BYTES, description="Size at which a bucket is sent."
    )
    first_bucket: PositiveBytes = Field(
        default=2.0**20,
        description="Size of the first sent bucket; torch uses it if bucket_size is 25 MiB.",
    )
    codec: CompressionConfig = Field(
        default=NoCompressionConfig(kind="none"),
        description="Compression by a communication hook.",
    )

    def run(self, worker: Worker) -> None:
        """Train; gradients are averaged during backward, which counts as compute."""
        # Kept until the end: torch.compile cuts the model in the first step, by the same sizes.
        with _first_bucket(int(self.first_bucket)):
            hook = CodecHook(self.codec, worker) if not self.codec.exact else TimedAverage(worker)
            wrapped = self.wrap(worker, worker.world.group, hook)
            for step in worker.steps():
                worker.compute_gradient(step, wrapped, wrapped.no_sync)
                worker.update()

    def computing_step(self, worker: Worker) -> Callable[[], None]:
        """Return a step with torch's own work on buckets, in a group that sends nothing."""
        group = silent_group(worker, worker.workers)
        with _first_bucket(int(self.first_bucket)):
            wrapped = self.wrap(worker, group, arrived_at_once)
        batch = worker.task.batch(torch.empty(0))

        def step() -> None:
            with _first_bucket(int(self.first_bucket)):
                worker.replica.compute_gradient(*batch, wrapped, wrapped.no_sync)
            worker.replica.update()

        return step

    def wrap(
        self, worker: Worker, group: Any, hook: Callable[[Any], Any]
    ) -> DistributedDataParallel:
        """Return the model wrapped in DDP over the ranks of ``group``."""
        # torch takes no devices for a model on a CPU, nor where the GPU is simulated.
        on_gpu = [worker.world.device] if worker.world.device.type == "cuda" else None
        # torch counts in MiB, and has a smaller first bucket only if no size is given.
        size = None if self.bucket_size == _DEFAULT_BUCKET_BYTES else self.bucket_size / 2**20
        wrapped = DistributedDataParallel(
            worker.replica.model,
            device_ids=on_gpu,
            process_group=group,
            bucket_cap_mb=size,
        )
        wrapped.register_comm_hook(hook, by_hook)
        return wrapped


@contextmanager
def _first_bucket(nbytes: int) -> Iterator[None]:
    """Set the size of the first bucket, which torch reads from a module variable."""
    before = dist._DEFAULT_FIRST_BUCKET_BYTES
    dist._DEFAULT_FIRST_BUCKET_BYTES = nbytes
    try:
        yield
    finally:
        dist._DEFAULT_FIRST_BUCKET_BYTES = before


class WholeBatch(Method):
    """Rank 0 takes the batches of all workers as one; the other ranks are idle."""

    kind: ClassVar[str] = "whole-batch"

    def run(self, worker: Worker) -> None:
        if worker.rank == 0:
            learn_whole_batches(worker, worker.replica.model)


class DataParallel(Method):
    """torch's nn.DataParallel: one process gives each of its GPUs a part of the whole batch."""

    kind: ClassVar[str] = "data-parallel"

    def missing(self) -> str:
        return "" if torch.cuda.is_available() else "nn.DataParallel needs GPUs, and there are none"

    def run(self, worker: Worker) -> None:
        """Train on the whole batch on rank 0, split by torch; the other ranks are idle."""
        if worker.rank == 0:
            learn_whole_batches(worker, nn.DataParallel(worker.replica.model))


def learn_whole_batches(worker: Worker, forward: nn.Module) -> None:
    """Train on the concatenated batches of all workers in every step."""
    shards = [worker.shard(each) for each in range(worker.workers)]
    for step in worker.steps():
        batches = [worker.batch(shard, step) for shard in shards]
        images = torch.cat([images for images, _ in batches])
        labels = torch.cat([labels for _, labels in batches])
        with worker.part("compute"):
            worker.losses.append(worker.replica.compute_gradient(images, labels, forward))
        worker.update()


class ZeroOne(Ddp):
    """ZeRO's first stage: DDP, with each worker's optimiser on a part of the parameters.

    Each worker broadcasts the parameters that it has updated. Source: Rajbhandari et al., "ZeRO",
    SC 2020; ``torch.distributed.optim.ZeroRedundancyOptimizer``.
    """

    kind: ClassVar[str] = "zero-1"

    def run(self, worker: Worker) -> None:
        """Train like DDP; broadcasts of weights count as update."""
        # Before the first update, which would otherwise create the task's usual optimiser.
        worker.replica.optimiser = self._optimiser(worker)
        super().run(worker)

    def computing_step(self, worker: Worker) -> Callable[[], None]:
        """Return a step with the optimiser of the rank's own part only."""
        # The inner optimiser, of this rank's parameters, broadcasts nothing.
        worker.replica.optimiser = self._optimiser(worker).optim
        return super().computing_step(worker)

    def _optimiser(self, worker: Worker) -> Any:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(
            worker.replica.model.parameters(),
            optimizer_class=worker.task.optimiser_class,
            process_group=worker.world.group,
            # Otherwise each tensor is broadcast by itself.
            parameters_as_bucket_view=True,
            **worker.task.optimiser_settings(),
        )
