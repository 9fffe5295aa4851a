"""Replays asynchronous gossip.

A worker's gradient belongs to the model that it read, and moves the one that it has by then.

Pairs take the mean of their models when their exchange ends, in one act. Where a codec compresses
models, both move towards each other by what they know of one another, as in
`dpsim.studies.replay.own_models`.
"""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import RealArray
from dpsim.engine import Act
from dpsim.strategy.compression import Codec, NoCompressionConfig
from dpsim.studies.replay.crew import Crew
from dpsim.studies.replay.curve import Watch
from dpsim.studies.replay.uplinks import Link, towards


class Pairs:
    """A model and a velocity (workers, P) of each worker, and what it read last, until its gradient
    is needed.

    ``stale``: for each update, in order, how often others averaged with its worker between reading
    and updating.
    """

    def __init__(self, crew: Crew, codec: Codec) -> None:
        self.models = np.stack([crew.start(worker) for worker in range(crew.workers)])
        self.stale: list[int] = []
        self._crew, self._codec = crew, codec
        self._towards = towards(crew.config.gossip_step, codec, crew.network.parameters)
        self._velocities = np.zeros_like(self.models)
        self._read: dict[int, tuple[int, RealArray]] = {}
        self._found: dict[int, RealArray] = {}
        self._heard = [0] * crew.workers
        self._heard_before = [0] * crew.workers
        self._start = self.models.copy()
        self._known: dict[tuple[int, int], RealArray] = {}
        self._links: dict[tuple[int, int], Link] = {}

    def run(self, acts: list[Act], watch: Watch) -> RealArray:
        """Everything in the order in which it happened; returns the mean of all models (P,)."""
        if watch.wants(0):
            watch.note(0, 0.0, 0, self.models)
        for act in acts:
            if act.what == "read":
                self._read[act.worker] = act.clock, self.models[act.worker].copy()
                self._heard_before[act.worker] = self._heard[act.worker]
            elif act.what == "averaged":
                self._average(act.worker, act.number)
            else:
                self._update(act.worker)
                if watch.wants(done := len(self.stale)):
                    watch.note(done, act.time, done * self._crew.batch, self.models)
        return np.asarray(self.models.mean(axis=0))

    def _average(self, worker: int, partner: int) -> None:
        self._heard[partner] += 1
        both = [worker, partner]
        if isinstance(self._codec, NoCompressionConfig):
            self.models[both] = (self.models[worker] + self.models[partner]) / 2
            return
        mine, theirs = self._told(worker, partner), self._told(partner, worker)
        self.models[both] += self._towards / 2 * np.stack([theirs - mine, mine - theirs])

    def _told(self, worker: int, partner: int) -> RealArray:
        """The copy of the worker's model that the partner holds, when it has been told what
        changed.
        """
        ends, elements = (worker, partner), self._crew.network.parameters
        if ends not in self._links:
            sender = worker * self._crew.workers + partner
            self._links[ends] = Link(self._codec, elements, self._crew.seed, sender, feedback=False)
            self._known[ends] = self._start[worker]
        self._known[ends] = self._known[ends] + self._links[ends].carry(
            self.models[worker] - self._known[ends]
        )
        return self._known[ends]

    def _update(self, worker: int) -> None:
        if worker not in self._found:
            self._compute()
        config = self._crew.config
        self._velocities[worker] = config.momentum * self._velocities[worker] + self._found.pop(
            worker
        )
        self.models[worker] -= config.learning_rate * self._velocities[worker]
        self.stale.append(self._heard[worker] - self._heard_before[worker])

    def _compute(self) -> None:
        """The gradients of all who have read, at once."""
        workers = np.array(sorted(self._read))
        clocks, held = zip(*(self._read.pop(worker) for worker in workers.tolist()), strict=True)
        self._found.update(
            zip(
                workers.tolist(),
                self._crew.gradients(workers, np.array(clocks), np.stack(held)),
                strict=True,
            )
        )
