"""How the gradients of an update become one change of the parameters: averaged, or pushed."""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.studies.replay.codec_links import CodecLink, CodecMean


class GradientAggregator(ABC):
    """Turns the gradients of one update into the direction in which parameters move."""

    @abstractmethod
    def change(self, workers: IntArray, gradients: RealArray) -> RealArray:
        """The change (P,), momentum included, from gradients (n, P) of ``workers``.

        The learning rate multiplies it.
        """


class AllReduceAggregator(GradientAggregator):
    """All workers average, and there is one velocity.

    A worker that gave nothing adds zeros, one that gave several gradients adds their sum. The mean
    is over all workers, or where late gradients are dropped over those that came.
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

    def change(self, workers: IntArray, gradients: RealArray) -> RealArray:
        """One all-reduce."""
        sums = np.zeros((self._workers, gradients.shape[1]), dtype=gradients.dtype)
        # Not sums[workers] += gradients, which takes the last alone of a worker that gave several.
        np.add.at(sums, workers, gradients)
        scale = self._scale(len(workers))
        self._velocity = self._momentum * self._velocity + scale * self._mean.mean(sums)
        return self._velocity

    def _scale(self, gave: int) -> float:
        """What makes of the mean over all workers the sum, or the mean over ``gave`` of them."""
        if self._total:
            return self._workers
        return self._workers / gave if self._drops else 1


class ServerAggregator(GradientAggregator):
    """Servers decode what is pushed and add it up.

    A gradient that is an update by itself counts 1 / workers and has its worker's velocity. Where
    the gradients of a quorum are one update (``together``), it is their mean, with one velocity.
    """

    def __init__(
        self, links: list[CodecLink], momentum: float, *, together: bool, total: bool
    ) -> None:
        self._links = links
        self._momentum = momentum
        self._together = together
        self._total = total
        self._velocities: dict[int, RealArray] = {}

    def change(self, workers: IntArray, gradients: RealArray) -> RealArray:
        """Decode and add up."""
        total = sum(
            self._links[worker].carry(gradient)
            for worker, gradient in zip(workers.tolist(), gradients, strict=True)
        )
        owner = 0 if self._together else int(workers[0])
        before = self._velocities.get(owner, np.zeros_like(gradients[0]))

        velocity = self._velocities[owner] = self._momentum * before + total
        return np.asarray(velocity / self._parts(len(workers)))

    def _parts(self, pushed: int) -> int:
        """What the sum of ``pushed`` gradients is divided by."""
        if self._total:
            return 1
        return pushed if self._together else len(self._links)
