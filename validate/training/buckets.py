"""Buckets that overlap with the backward pass, as in torch DDP, by a hook on every parameter.

A bucket whose gradients are all ready is averaged at once, in the background, during the backward
pass. Buckets start in the same order on every rank, or ranks would average different ones with each
other. The first step has one bucket of everything; then buckets are cut by size in the order in
which gradients became ready in rank 0's first backward pass, as DDP rebuilds its own.

Source: Li et al., "PyTorch Distributed", VLDB 13, 2020.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from pydantic import Field
from torch import Tensor

from dpsim.base.units import PositiveBytes
from validate.ranks.processes import World
from validate.training.method import Method
from validate.training.worker import Worker


class Buckets(Method):
    """Gradients are averaged bucket by bucket while backward goes on."""

    kind: ClassVar[str] = "buckets"
    overlaps_communication: ClassVar[bool] = True
    bucket_size: PositiveBytes = Field(
        default=25 * 2.0**20, description="Size at which a bucket is sent."
    )
    first_bucket: PositiveBytes = Field(
        default=2.0**20, description="Size at which the first bucket is sent."
    )

    def run(self, worker: Worker) -> None:
        """Train; the part of averaging that outlasts backward counts as communication."""
        reducer = Reducer(list(worker.replica.model.parameters()), worker.world)
        for step in worker.steps():
            worker.compute_gradient(step)
            with worker.part("communication"):
                reducer.finish()
            worker.update()
            if step == 0:
                reducer.rebuild(int(self.first_bucket), int(self.bucket_size))


@dataclass(frozen=True, slots=True, eq=False)
class _Flying:
    """An average in progress."""

    bucket: list[int]
    sums: Tensor
    work: Any


class Reducer:
    """Averages the gradients of ``parameters`` as backward makes them ready.

    ``buckets`` are lists of indices of parameters.
    """

    def __init__(self, parameters: Sequence[Tensor], world: World) -> None:
        self.parameters, self.world = parameters, world
        self.buckets = [list(range(len(parameters)))]
        self._arrived: list[int] = []
        self._flying: list[_Flying] = []
        for index, parameter in enumerate(parameters):
            parameter.register_post_accumulate_grad_hook(partial(self._ready, index))

    def _ready(self, index: int, parameter: Tensor) -> None:
        """Start every complete bucket whose turn it is; called by the hook."""
        self._arrived.append(index)
        ready = set(self._arrived)
        # In the order of buckets, not of completion: backward may differ between ranks, and ranks
        # must start the same averages in the same order.
        for bucket in self.buckets[len(self._flying) :]:
            if not ready.issuperset(bucket):
                break
            self._start(bucket)

    def _start(self, bucket: list[int]) -> None:
        # A copy of the gradients, so that a bucket is one message.
        sums = torch.cat([self._gradient(index).reshape(-1) for index in bucket])
        work = dist.all_reduce(sums, group=self.world.group, async_op=True)
        self._flying.append(_Flying(bucket, sums, work))

    def finish(self) -> None:
        """Wait for all averages, and replace the gradients by them."""
        for flying in self._flying:
            flying.work.wait()
            sizes = [self.parameters[index].numel() for index in flying.bucket]
            means = (flying.sums / self.world.size).split(sizes)
            for index, mean in zip(flying.bucket, means, strict=True):
                self._gradient(index).copy_(mean.view_as(self.parameters[index]))

        # `rebuild` needs the order of the last pass.
        self.order, self._arrived, self._flying = self._arrived, [], []

    def rebuild(self, first: int, cap: int) -> None:
        """Cut the buckets again, in the order of rank 0's last backward pass."""
        # Rank 0's, since the order may differ by rank, and all need the same buckets.
        order = torch.tensor(self.order, device=self.parameters[0].device)
        dist.broadcast(order, src=0, group=self.world.group)
        indices: list[int] = order.tolist()
        nbytes = [self.parameters[index].nbytes for index in indices]
        self.buckets = [[indices[i] for i in cut] for cut in cut_by_size(nbytes, first, cap)]

    def _gradient(self, index: int) -> Tensor:
        gradient = self.parameters[index].grad
        assert gradient is not None, f"parameter {index} has a gradient"
        return gradient


def cut_by_size(nbytes: Sequence[int], first: int, cap: int) -> list[list[int]]:
    """Cut ``nbytes`` into buckets and return the indices in each.

    A bucket is closed when it has ``cap`` bytes or more, the first when it has ``first``.
    """
    buckets: list[list[int]] = [[]]
    for index in range(len(nbytes)):
        limit = cap if len(buckets) > 1 else first
        if sum(nbytes[i] for i in buckets[-1]) >= limit:
            buckets.append([])
        buckets[-1].append(index)
    return buckets
