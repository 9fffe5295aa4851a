"""Buckets: gradients are sent in groups of about equal size during the backward pass.

As in torch's DistributedDataParallel, tensors are taken in the order in which they become ready,
and a bucket is closed when it has reached its size, which it may exceed. The first is smaller, so
that communication starts early. Source: Li et al., "PyTorch Distributed", VLDB 13, 2020; torch's
defaults.
"""

from __future__ import annotations

from math import ceil
from typing import Literal

from pydantic import Field

from dpsim.base.units import PositiveBytes
from dpsim.strategy.aggregation import Calls, CollectiveCall, merged
from dpsim.strategy.overlap.plan import Outlook, Overlap
from dpsim.workload import Model


class BucketsConfig(Overlap):
    """Gradients are sent in buckets during the backward pass."""

    kind: Literal["buckets"] = Field(
        description="Gradients are sent in buckets during the backward pass."
    )
    bucket_size: PositiveBytes = Field(
        default=25 * 2.0**20, description="Size at which a bucket is sent."
    )
    first_bucket: PositiveBytes = Field(
        default=2.0**20, description="Size at which the first bucket is sent."
    )

    @property
    def size_of_buckets(self) -> float:
        """The size of all buckets except the first."""
        return self.bucket_size

    def most_calls(self, model: Model) -> int:
        """Return the number of filled buckets, and the first."""
        filled = ceil(model.parameter_bytes * model.trained / self.bucket_size)
        return min(len(model.layers), 1 + filled)

    def plan(self, calls: Calls, outlook: Outlook) -> Calls:
        """Return the calls merged into buckets, in order.

        Without rebuilding, torch fills buckets in the order of parameters, so that the first, small
        one is the last to become ready (torch/nn/parallel/distributed.py).
        """
        filled = self._filled(calls if outlook.rebuilt else calls[::-1])
        if not outlook.rebuilt:
            filled = [bucket[::-1] for bucket in reversed(filled)]
        return tuple(merged(f"bucket{number}", each) for number, each in enumerate(filled))

    def _filled(self, calls: Calls) -> list[Calls]:
        """Return the calls of each bucket; the last one may be smaller."""
        buckets: list[Calls] = []
        inside: list[CollectiveCall] = []
        for call in calls:
            inside.append(call)
            limit = self.bucket_size if buckets else self.first_bucket
            if sum(each.nbytes for each in inside) >= limit:
                buckets.append(tuple(inside))
                inside = []
        return [*buckets, tuple(inside)] if inside else buckets
