"""Replay asynchronous gossip.

A worker's gradient is computed on the model that it read, and applied to its current model. Pairs
average their models when their exchange ends, in one act. If a codec compresses models, both move
towards each other by their copies of one another, as in `dpsim.studies.replay.own_models`.
"""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import RealArray
from dpsim.engine import Act
from dpsim.strategy.compression import Codec
from dpsim.studies.replay.codec_links import CodecLink, gossip_step_size
from dpsim.studies.replay.curve import CurveRecorder
from dpsim.studies.replay.trainer import Trainer


class Pairs:
    """A model and a velocity (workers, P) for each worker, and the model it read last.

    The model read is kept until its gradient is needed. ``stale``: for each update, in order, how
    often others averaged with its worker between reading and updating.
    """

    def __init__(self, trainer: Trainer, codec: Codec) -> None:
        self.models = np.stack([trainer.start(worker) for worker in range(trainer.workers)])
        self.stale: list[int] = []
        self._trainer = trainer
        self._codec = codec
        self._step_size = gossip_step_size(codec, trainer.network.parameters)
        self._velocities = np.zeros_like(self.models)
        self._read: dict[int, tuple[int, RealArray]] = {}
        self._computed: dict[int, RealArray] = {}
        # How often others averaged with each worker: in total, and when it last read.
        self._averaged = [0] * trainer.workers
        self._averaged_when_read = [0] * trainer.workers
        self._start = self.models.copy()
        self._known: dict[tuple[int, int], RealArray] = {}
        self._links: dict[tuple[int, int], CodecLink] = {}

    def run(self, acts: list[Act], recorder: CurveRecorder) -> RealArray:
        """Process all acts in order; return the mean of all models (P,)."""
        if recorder.is_due(0):
            recorder.record(0, 0.0, 0, self.models, self.models)
        for act in acts:
            if act.what == "read":
                # Copy the model, because others may average with the worker while it computes.
                self._read[act.worker] = act.clock, self.models[act.worker].copy()
                self._averaged_when_read[act.worker] = self._averaged[act.worker]
                continue
            if act.what == "averaged":
                self._average(act.worker, act.number)
                continue
            self._update(act.worker)
            done = len(self.stale)
            if recorder.is_due(done):
                samples = done * self._trainer.batch
                recorder.record(done, act.time, samples, self.models, self.models.copy())
        return np.asarray(self.models.mean(axis=0))

    def _average(self, worker: int, partner: int) -> None:
        self._averaged[partner] += 1
        both = [worker, partner]
        if self._codec.exact:
            self.models[both] = (self.models[worker] + self.models[partner]) / 2
            return
        # Moving both by the difference of their copies preserves the models' mean.
        worker_copy = self._received_model(worker, partner)
        partner_copy = self._received_model(partner, worker)
        moves = np.stack([partner_copy - worker_copy, worker_copy - partner_copy])
        self.models[both] += self._step_size / 2 * moves

    def _received_model(self, worker: int, partner: int) -> RealArray:
        """Send a worker's changes to its partner, and return the partner's copy of its model."""
        direction = (worker, partner)
        if direction not in self._links:
            self._links[direction] = CodecLink(
                self._codec,
                self._trainer.network.parameters,
                self._trainer.seed,
                # Each direction has its own random stream.
                sender=worker * self._trainer.workers + partner,
                feedback=False,
            )
            self._known[direction] = self._start[worker]
        changed = self.models[worker] - self._known[direction]
        self._known[direction] = self._known[direction] + self._links[direction].carry(changed)
        return self._known[direction]

    def _update(self, worker: int) -> None:
        if worker not in self._computed:
            self._compute()
        config = self._trainer.config
        gradient = self._computed.pop(worker)
        self._velocities[worker] = config.momentum * self._velocities[worker] + gradient
        self.models[worker] -= config.learning_rate * self._velocities[worker]
        self.stale.append(self._averaged[worker] - self._averaged_when_read[worker])

    def _compute(self) -> None:
        """Compute the gradients of all workers that have read, by one product of matrices."""
        workers = sorted(self._read)
        clocks: list[int] = []
        models: list[RealArray] = []
        for worker in workers:
            # ``workers`` is sorted, so that results do not depend on the order of reading.
            clock, model = self._read.pop(worker)
            clocks.append(clock)
            models.append(model)
        gradients = self._trainer.gradients(np.array(workers), np.array(clocks), np.stack(models))
        for worker, gradient in zip(workers, gradients, strict=True):
            self._computed[worker] = gradient
