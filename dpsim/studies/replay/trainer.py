"""The common parts of replays: network, samples, and batched gradients."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.disturbance import random_stream
from dpsim.scenario import ReplayConfig
from dpsim.studies.replay.learning import NETWORKS, Sampler, digits, mean_loss

# Gradients computed at once, to limit memory: this many of the MLP take 80 MB.
_MOST_AT_ONCE = 4096


class Trainer:
    """Computes gradients for ``workers`` workers that take ``batch`` samples each per iteration.

    ``apart``: each worker samples from a shard of its own.
    """

    def __init__(
        self, config: ReplayConfig, workers: int, batch: int, seed: int, *, apart: bool = False
    ) -> None:
        self.config = config
        self.workers = workers
        self.batch = batch
        self.seed = seed
        self.network = NETWORKS[config.model]
        self.digits = digits()
        self.sampler = Sampler(len(self.digits.labels), workers, batch, seed, apart=apart)

    def start(self, worker: int = 0) -> RealArray:
        """Return the initial parameters (P,), of ``worker`` if each starts from its own."""
        drawn_for = worker if self.config.own_start else 0
        return self.network.start(random_stream(self.seed, "parameters", drawn_for))

    def gradients(self, workers: IntArray, clocks: IntArray, parameters: RealArray) -> RealArray:
        """Return the gradients (n, P) of n workers in iterations ``clocks``.

        ``parameters`` are those of each worker (n, P), or (1, P) for all.
        """
        samples = self.sampler.indices(workers, clocks)
        computed = []
        for begin in range(0, len(workers), _MOST_AT_ONCE):
            part = slice(begin, begin + _MOST_AT_ONCE)
            read = parameters if len(parameters) == 1 else parameters[part]  # one row is broadcast
            images = self.digits.images[samples[part]]
            labels = self.digits.labels[samples[part]]
            _, gradients = self.network.gradients(read, images, labels)
            computed.append(gradients)
        return computed[0] if len(computed) == 1 else np.concatenate(computed)

    def measure(self, parameters: RealArray) -> tuple[float, float]:
        """Return the training loss and test accuracy at ``parameters`` (P,).

        The loss is over all training samples; the accuracy is the share of test images classified
        correctly.
        """
        data = self.digits
        scores = self.network.scores(parameters[None], data.images[None])
        losses = mean_loss(scores, data.labels[None])
        test_scores = self.network.scores(parameters[None], data.test_images[None])
        guesses = test_scores[0].argmax(axis=-1)
        return float(losses[0]), float((guesses == data.test_labels).mean())
