"""What the others should equal: torch's data parallelism, and one process on the whole batch."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from validate.training.method import Method
from validate.training.worker import Worker


class Ddp(Method):
    """torch's DistributedDataParallel, with its own buckets, averages and overlap."""

    kind: Literal["ddp"] = Field(default="ddp", description="torch's DistributedDataParallel.")

    def run(self, worker: Worker) -> None:
        """Gradients are averaged during backward: that time is in compute."""
        # torch takes no devices for a model on a CPU.
        on_gpu = [worker.world.device] if worker.world.device.type == "cuda" else None
        wrapped = DistributedDataParallel(
            worker.replica.model, device_ids=on_gpu, process_group=worker.world.group
        )
        for step in worker.steps():
            worker.learn(step, forward=wrapped)
            worker.update()


class WholeBatch(Method):
    """Rank 0 takes the batches of all workers as one; the other ranks stand by."""

    kind: Literal["whole-batch"] = Field(
        default="whole-batch", description="One process on the batches of all workers together."
    )

    def run(self, worker: Worker) -> None:
        """Plain SGD on rank 0."""
        if worker.rank == 0:
            learn_whole_batches(worker, worker.replica.model)


class DataParallel(Method):
    """torch's nn.DataParallel: one process gives each of its GPUs a part of the whole batch."""

    kind: Literal["data-parallel"] = Field(
        default="data-parallel", description="torch's nn.DataParallel on the GPUs of rank 0."
    )

    def missing(self) -> str:
        """nn.DataParallel splits a batch over GPUs only."""
        return "" if torch.cuda.is_available() else "nn.DataParallel needs GPUs, and there are none"

    def run(self, worker: Worker) -> None:
        """The whole batch on rank 0, split by torch; the other ranks stand by."""
        if worker.rank == 0:
            learn_whole_batches(worker, nn.DataParallel(worker.replica.model))


def learn_whole_batches(worker: Worker, forward: nn.Module) -> None:
    """Every step on the batches of all workers laid end to end."""
    shards = [worker.shard(each) for each in range(worker.workers)]
    for step in worker.steps():
        batches = [worker.batch(shard, step) for shard in shards]
        images = torch.cat([images for images, _ in batches])
        labels = torch.cat([labels for _, labels in batches])
        with worker.part("compute"):
            worker.record.losses.append(worker.replica.learn(images, labels, forward))
        worker.update()
