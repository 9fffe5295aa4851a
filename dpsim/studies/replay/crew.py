"""All who learn, in one process: their network, their samples, and their gradients, many at once."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpsim.base.arrays import IntArray, RealArray
from dpsim.disturbance import random_stream
from dpsim.scenario import ReplayConfig
from dpsim.studies.replay.learning import (
    NETWORKS,
    Deal,
    Network,
    TorchNetwork,
    cross_entropy,
    digits,
)

_AT_ONCE = 4096  # gradients


class Crew:
    """``workers`` who take ``batch`` samples each in an iteration."""

    def __init__(self, config: ReplayConfig, workers: int, batch: int, seed: int) -> None:
        self.config, self.workers, self.batch, self.seed = config, workers, batch, seed
        network = NETWORKS[config.model]
        self.network: Network = TorchNetwork(network) if config.backend == "torch" else network
        self.digits = digits(config.precision)
        self.deal = Deal(len(self.digits.labels), workers, batch, seed)

    def start(self, worker: int = 0) -> RealArray:
        """Initial parameters (P,); of ``worker`` where each starts from its own."""
        drawn = self.network.start(
            random_stream(self.seed, "parameters", worker if self.config.own_start else 0)
        )
        return drawn.astype(self.config.precision)

    def gradients(self, workers: IntArray, clocks: IntArray, parameters: RealArray) -> RealArray:
        """Gradients (n, P) of n workers in iterations ``clocks`` at ``parameters`` (n, P), or (1,
        P) for all.
        """
        chosen = self.deal.indices(workers, clocks)
        found = []
        for begin in range(0, len(workers), _AT_ONCE):
            part = slice(begin, begin + _AT_ONCE)
            held = parameters if len(parameters) == 1 else parameters[part]
            found.append(
                self.network.gradients(
                    held, self.digits.images[chosen[part]], self.digits.labels[chosen[part]]
                )[1]
            )
        return found[0] if len(found) == 1 else np.concatenate(found)

    def measure(self, parameters: RealArray) -> tuple[float, float]:
        """Loss over all samples to train on, and the share of test images told right, at
        ``parameters`` (P,).
        """
        known = self.digits
        scores = self.network.scores(parameters[None], known.images[None])
        loss = float(cross_entropy(scores, known.labels[None])[0][0])
        guesses: Any = self.network.scores(parameters[None], known.test_images[None])[0].argmax(
            axis=-1
        )
        return loss, float((guesses == known.test_labels).mean())
