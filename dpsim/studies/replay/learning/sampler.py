"""Assign samples to workers: equal shards of one endless stream.

The stream is one permutation of all samples per epoch, drawn from the seed and the epoch. In
iteration t worker w of m takes b samples from index (t m + w) b on. Shards of an iteration are
therefore disjoint within an epoch, and those of m workers with batch b are together the shard of
one worker with batch m b.

With separate shards, worker w has every m-th sample from the w-th on, and a stream of only those.
"""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.disturbance import random_stream


class Sampler:
    """Assigns ``batch`` of ``samples`` per iteration to ``workers``; ``apart``: separate shards."""

    def __init__(
        self, samples: int, workers: int, batch: int, seed: int, *, apart: bool = False
    ) -> None:
        self.samples = samples
        self.workers = workers
        self.batch = batch
        self.seed = seed
        self.apart = apart
        # Shards are equally long, and remaining samples are in no shard.
        self._stream = max(1, samples // workers) if apart else samples
        self._orders: dict[int, IntArray] = {}

    def indices(self, worker: IntArray, clock: IntArray) -> IntArray:
        """Return the samples (n, batch) of n workers in iterations ``clock``; both (n,)."""
        if self.apart:
            of_shard = self._along(clock * self.batch)
            return (worker[:, None] + self.workers * of_shard) % self.samples
        return self._along((clock * self.workers + worker) * self.batch)

    def _along(self, first: IntArray) -> IntArray:
        """Return the stream's samples from indices ``first`` (n,) on: (n, batch)."""
        places = first[:, None] + np.arange(self.batch)
        epochs, within = np.divmod(places, self._stream)
        # A batch may extend past an epoch's end, and fast workers may be epochs ahead of slow ones.
        chosen = np.empty_like(places)
        for epoch in np.unique(epochs).tolist():
            in_epoch = epochs == epoch
            chosen[in_epoch] = self._order(epoch)[within[in_epoch]]
        return chosen

    def _order(self, epoch: int) -> IntArray:
        if epoch not in self._orders:
            generator = random_stream(self.seed, "epoch", epoch)
            self._orders[epoch] = generator.permutation(self._stream).astype(np.int64)
        return self._orders[epoch]
