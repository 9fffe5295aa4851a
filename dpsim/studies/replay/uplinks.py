"""How vectors travel by way of the codec, and how gradients become one change of the parameters.

Averaged together or pushed.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.disturbance import random_stream
from dpsim.strategy.compression import Codec, Exchange, Floats, NoCompressionConfig


class Link:
    """One sender's encoder and its receivers' decoder, with the sender's residual; lossless without
    a codec.
    """

    def __init__(
        self, codec: Codec, elements: int, seed: int, sender: int, *, feedback: bool = True
    ) -> None:
        drawn = int(random_stream(seed, "codec", sender).integers(2**63))
        self._exchange = _exchange(codec, 1, elements, drawn, feedback=feedback)

    def carry(self, vector: RealArray) -> RealArray:
        """What arrives of ``vector`` (P,)."""
        return (
            vector
            if self._exchange is None
            else self._exchange.mean(vector[None].astype(np.float32)).astype(vector.dtype)
        )


class Average:
    """The mean of all workers' vectors (workers, P), as a collective with the codec makes it."""

    def __init__(
        self, codec: Codec, workers: int, elements: int, seed: int, *, feedback: bool = True
    ) -> None:
        self._exchange = _exchange(codec, workers, elements, seed, feedback=feedback)

    def mean(self, vectors: RealArray) -> RealArray:
        """What every worker holds afterwards (P,)."""
        if self._exchange is None:
            return np.asarray(vectors.sum(axis=0) / len(vectors))
        return self._exchange.mean(vectors.astype(np.float32)).astype(vectors.dtype)


def _exchange(
    codec: Codec, workers: int, elements: int, seed: int, *, feedback: bool
) -> Exchange | None:
    """None without a codec.

    Without ``feedback`` what encoding loses is not kept: it shows in the next difference.
    """
    if isinstance(codec, NoCompressionConfig):
        return None
    return (
        Exchange(codec, workers, elements, seed)
        if feedback
        else _Differences(codec, workers, elements, seed)
    )


class _Differences(Exchange):
    """Encodes as for error feedback, so that what arrives is never more than what was sent, but
    keeps no residual.
    """

    def __init__(self, codec: Codec, workers: int, elements: int, seed: int) -> None:
        fed_back = {"error_feedback": True} if "error_feedback" in type(codec).model_fields else {}
        super().__init__(codec.model_copy(update=fed_back), workers, elements, seed)

    def mean(self, vectors: Floats) -> Floats:
        """What every worker holds after a step."""
        self.residuals[...] = 0
        return super().mean(vectors)


def towards(step: float | None, codec: Codec, elements: int) -> float:
    """How far gossip moves by what it knows.

    ``step``, or if None as little as the codec sends, halved; all the way if lossless.

    What neighbours know lags behind the more, the less is sent, and moving faster than that
    overshoots.
    """
    if isinstance(codec, NoCompressionConfig):
        return 1.0
    return min(codec.wire_bytes(elements) / (4 * elements), 1.0) / 2 if step is None else step


class Uplink(ABC):
    """Turns the gradients of one update into the direction in which parameters move."""

    @abstractmethod
    def change(self, workers: IntArray, gradients: RealArray) -> RealArray:
        """The change (P,), momentum included, from gradients (n, P) of ``workers``; the learning
        rate multiplies it.
        """


class Together(Uplink):
    """All workers average; one that gave nothing adds zeros, one that gave several adds their sum.

    One velocity.

    The mean is over all workers, or where late gradients are dropped over those that came.
    """

    def __init__(
        self, average: Average, workers: int, momentum: float, *, drops: bool, total: bool
    ) -> None:
        self._average, self._workers, self._momentum, self._drops, self._total = (
            average,
            workers,
            momentum,
            drops,
            total,
        )
        self._velocity: RealArray | float = 0.0

    def change(self, workers: IntArray, gradients: RealArray) -> RealArray:
        """One all-reduce."""
        sums = np.zeros((self._workers, gradients.shape[1]), dtype=gradients.dtype)
        np.add.at(sums, workers, gradients)
        share = self._workers if self._total else self._workers / len(workers) if self._drops else 1
        self._velocity = self._momentum * self._velocity + share * self._average.mean(sums)
        return self._velocity


class Pushed(Uplink):
    """Servers decode what is pushed.

    A gradient that is an update counts 1 / workers and has its worker's velocity.

    Where the gradients of a quorum are one update (``together``), it is their mean, with one
    velocity.
    """

    def __init__(self, links: list[Link], momentum: float, *, together: bool, total: bool) -> None:
        self._links, self._momentum, self._together, self._total = links, momentum, together, total
        self._velocities: dict[int, RealArray] = {}

    def change(self, workers: IntArray, gradients: RealArray) -> RealArray:
        """Decode and add up."""
        total = sum(
            self._links[worker].carry(gradient)
            for worker, gradient in zip(workers.tolist(), gradients, strict=True)
        )
        slot = 0 if self._together else int(workers[0])
        self._velocities[slot] = (
            self._momentum * self._velocities.get(slot, np.zeros_like(gradients[0])) + total
        )
        parts = 1 if self._total else len(workers) if self._together else len(self._links)
        return np.asarray(self._velocities[slot] / parts)
