"""Combine the gradients of an update into one change of the parameters."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.studies.replay.codec_links import CodecLink, CodecMean

# From the gradients (n, P) of ``workers``, the change (P,) of the parameters, momentum included,
# which the learning rate multiplies.
Aggregate = Callable[[IntArray, RealArray], RealArray]


class AllReduceAggregator:
    """The average over all workers, with one velocity.

    A worker without a gradient adds zeros, one with several gradients adds their sum. The mean is
    over all workers, or, if late gradients are dropped, over those that arrived.
    """

    def __init__(
        self, mean: CodecMean, workers: int, momentum: float, *, drops: bool, total: bool
    ) -> None:
        self._mean = mean
        self._workers = workers
        self._momentum = momentum
        self._drops = drops
        self._total = total
        self._velocity: RealArray | float = 0.0

    def __call__(self, workers: IntArray, gradients: RealArray) -> RealArray:
        sums = np.zeros((self._workers, gradients.shape[1]), dtype=gradients.dtype)
        # Not sums[workers] += gradients, which keeps only the last gradient of a worker.
        np.add.at(sums, workers, gradients)
        scale = self._scale(len(workers))
        self._velocity = self._momentum * self._velocity + scale * self._mean.mean(sums)
        return self._velocity

    def _scale(self, count: int) -> float:
        """Return the factor from the mean over all workers to the sum or mean of ``count``."""
        if self._total:
            return self._workers
        return self._workers / count if self._drops else 1


class ServerAggregator:
    """Servers that decode pushed gradients and add them up.

    A gradient that is an update by itself is divided by the number of workers and has its worker's
    velocity. If the gradients of a quorum are one update (``gathers``), their mean is taken, with
    one velocity.
    """

    def __init__(
        self, links: list[CodecLink], momentum: float, *, gathers: bool, total: bool
    ) -> None:
        self._links = links
        self._momentum = momentum
        self._gathers = gathers
        self._total = total
        self._velocities: dict[int, RealArray] = {}

    def __call__(self, workers: IntArray, gradients: RealArray) -> RealArray:
        total = sum(
            self._links[worker].carry(gradient)
            for worker, gradient in zip(workers.tolist(), gradients, strict=True)
        )
        owner = 0 if self._gathers else int(workers[0])
        before = self._velocities.get(owner, np.zeros_like(gradients[0]))

        velocity = self._velocities[owner] = self._momentum * before + total
        return np.asarray(velocity / self._parts(len(workers)))

    def _parts(self, pushed: int) -> int:
        """Return the divisor of the sum of ``pushed`` gradients."""
        if self._total:
            return 1
        return pushed if self._gathers else len(self._links)
