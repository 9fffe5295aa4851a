"""Replay hierarchical local SGD: averages within groups, and outer steps between them.

The outer optimiser uses the groups' mean movement as its gradient. A fragment that arrives after
its workers have continued is mixed half and half with theirs, as in Streaming DiLoCo (Douillard et
al., 2025).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

import numpy as np

from dpsim.base.arrays import RealArray
from dpsim.engine import Job
from dpsim.strategy.compression import Codec
from dpsim.studies.replay.codec_links import CodecMean
from dpsim.studies.replay.own_models import OwnModels
from dpsim.studies.replay.trainer import Trainer

_OWN_SHARE = 0.5  # a worker's own share when a fragment arrives late


class _Fragment(NamedTuple):
    """The mean movement of a fragment, to be applied after ``step``."""

    step: int
    part: slice
    moved: RealArray


class TwoLevels(OwnModels):
    """Models averaged within groups, and moved by an outer optimiser between them."""

    def __init__(self, trainer: Trainer, job: Job, codec: Codec) -> None:
        super().__init__(trainer, job, codec)
        sync = job.scenario.strategy.sync
        outer = sync.outer_step
        assert outer is not None, "two levels have an outer step"
        self._outer = outer
        self._first = sync.first_own_step
        size = sync.group_size(job.cluster.mesh)
        self._groups = np.arange(job.workers).reshape(-1, size)
        everyone = self._groups.reshape(1, -1)
        elements, seed = trainer.network.parameters, trainer.seed
        self._means = {
            grouped: [(rows, CodecMean(codec, len(rows), elements, seed)) for rows in groups]
            for grouped, groups in ((False, everyone), (True, self._groups))
        }
        self._parts = outer.parts(elements)
        self._between = [
            CodecMean(outer.compression, len(self._groups), part.stop - part.start, seed)
            for part in self._parts
        ]
        self._common = self.of_workers(self.models)
        self._weights = self.models.mean(axis=0)
        self._momenta = np.zeros_like(self._weights)
        self._in_flight: deque[_Fragment] = deque()

    def step(self, step: int, gradients: RealArray) -> None:
        """Take the learners' steps, then exchange within and between groups."""
        exchange = self.job.exchange(step)
        # Before the switch, gradients moved all models equally, so outer steps start here.
        if step == self._first:
            self._weights = self.models.mean(axis=0)
        if exchange.kind == "gradients":
            averaged = self._average(self.of_workers(gradients), grouped=exchange.grouped)
            gradients = self._for_learners(averaged)
        self.models = self.models - self.moves(gradients)
        if exchange.kind == "gradients":
            self._common = self.of_workers(self.models)
        if exchange.kind == "models":
            moved = self.of_workers(self.models) - self._common
            self._common = self._common + self._average(moved, grouped=exchange.grouped)
            self.models = self._for_learners(self._common)
        for number in exchange.fragments:
            self._send(number, step)
        while self._in_flight and self._in_flight[0].step <= step:
            self._arrive(self._in_flight.popleft())

    def _send(self, number: int, step: int) -> None:
        """Send a fragment of the groups' movement from the outer weights."""
        part = self._parts[number]
        of_groups = self.of_workers(self.models)[:, part][self._groups].mean(axis=1)
        # Like a gradient, the movement points back; the outer step subtracts it.
        moved = self._between[number].mean(self._weights[part] - of_groups)
        self._in_flight.append(_Fragment(step + self._outer.overlap, part, moved))

    def _arrive(self, fragment: _Fragment) -> None:
        """Take the outer step on a fragment, and mix the result into the models."""
        part, change = fragment.part, fragment.moved
        momenta = self._outer.momentum_factor * self._momenta[part] + change
        self._momenta[part] = momenta
        # Nesterov's momentum as in torch's SGD.
        change = change + self._outer.momentum_factor * momenta
        self._weights[part] = self._weights[part] - self._outer.rate * change
        # Without overlap no worker has continued, so there is no progress to keep.
        own = _OWN_SHARE if self._outer.overlap else 0.0
        models = self.models.copy()
        models[:, part] = own * models[:, part] + (1 - own) * self._weights[part]
        self.models = models
        self._common = self.of_workers(models)

    def _average(self, vectors: RealArray, *, grouped: bool) -> RealArray:
        """Return each worker's mean over the workers with which it averages."""
        averaged = np.empty_like(vectors)
        for rows, mean in self._means[grouped]:
            averaged[rows] = mean.mean(vectors[rows]) if len(rows) > 1 else vectors[rows]
        return averaged

    def _for_learners(self, vectors: RealArray) -> RealArray:
        """Return each worker's vector repeated for all its learners."""
        return np.repeat(vectors, len(self.models) // len(vectors), axis=0)
