"""Replay synchronous workers with their own models: local SGD, model averaging and gossip.

Workers exchange when the simulation says; in between they are independent, so all gradients of a
step are computed at once. If a codec compresses models, workers send differences from the
receivers' copy: from the last average, or in gossip from the neighbours' copy (Koloskova, Stich and
Jaggi, "Decentralized stochastic optimization and gossip algorithms with compressed communication",
ICML 2019). The next difference contains the loss of this one, so gossip and the central average
need no error feedback.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import cast

import numpy as np

from dpsim.base.arrays import RealArray
from dpsim.collectives import mixing_matrix
from dpsim.engine import Job
from dpsim.strategy.aggregation import GossipConfig
from dpsim.strategy.compression import Codec
from dpsim.studies.replay.codec_links import CodecLink, CodecMean, gossip_step_size
from dpsim.studies.replay.curve import CurveRecorder
from dpsim.studies.replay.trainer import Trainer


class OwnModels(ABC):
    """Learners' models and velocities (learners, P)."""

    def __init__(self, trainer: Trainer, job: Job, codec: Codec) -> None:
        self.trainer, self.job, self.codec = trainer, job, codec
        self.models: RealArray = np.stack(
            [trainer.start(worker) for worker in range(trainer.workers)]
        )
        self._velocities = np.zeros_like(self.models)
        self._everyone = np.arange(trainer.workers)

    def run(self, times: list[float], recorder: CurveRecorder) -> RealArray:
        """Take a step for each of ``times``.

        Return the mean of all models (P,), or the central one.
        """
        samples_a_step = self.trainer.workers * self.trainer.batch
        # The first iteration only measures the start.
        for done, time in enumerate([0.0, *times]):
            if done:
                clocks = np.full(self.trainer.workers, done - 1)
                gradients = self.trainer.gradients(self._everyone, clocks, self.models)
                self.step(done - 1, gradients)
            if recorder.is_due(done):
                recorder.record(done, time, done * samples_a_step, self.shown, self.models)
        return np.asarray(self.models.mean(axis=0))

    @property
    def shown(self) -> RealArray:
        """The models whose mean is measured."""
        return self.models

    @abstractmethod
    def step(self, step: int, gradients: RealArray) -> None:
        """Update all models (learners, P) by the gradients of ``step``."""

    def moves(self, gradients: RealArray) -> RealArray:
        """Return the SGD update of each learner."""
        self._velocities = self.trainer.config.momentum * self._velocities + gradients
        return self.trainer.config.learning_rate * self._velocities

    def of_workers(self, vectors: RealArray) -> RealArray:
        """Return the mean over the learners of each worker."""
        return np.asarray(vectors.reshape(self.job.workers, -1, vectors.shape[1]).mean(axis=1))


class LocalSgd(OwnModels):
    """Models averaged periodically; before an optional switch, gradients are averaged instead.

    The codec compresses the models' differences from the last average.
    """

    def __init__(self, trainer: Trainer, job: Job, codec: Codec) -> None:
        super().__init__(trainer, job, codec)
        self._average = CodecMean(codec, job.workers, trainer.network.parameters, trainer.seed)
        self._common = self.models.mean(axis=0)

    def step(self, step: int, gradients: RealArray) -> None:
        """Take a step of each learner, then exchange like the simulated workers."""
        exchanged = self.job.exchange(step).kind
        if exchanged == "gradients":
            mean = self._average.mean(self.of_workers(gradients))
            gradients = np.broadcast_to(mean, gradients.shape)
        self.models = self.models - self.moves(gradients)
        if exchanged == "gradients":
            self._common = self.models.mean(axis=0)
        if exchanged == "models":
            self._common = self._mean_model()
            self.models = np.repeat(self._common[None], len(self.models), axis=0)

    def _mean_model(self) -> RealArray:
        models = self.of_workers(self.models)
        if self.codec.exact:
            return self._average.mean(models)
        return np.asarray(self._common + self._average.mean(models - self._common))


class CentralModel(OwnModels):
    """Learners w_i are corrected by c_i towards a central model z.

    In a step that exchanges models w_i -= g_i + c_i, and z moves by the sum of c_i. A learner is
    corrected when the previous step's z has arrived, at the latest when its next step begins. A
    codec that keeps little of the corrections delays z, which may then oscillate if it has a large
    momentum.
    """

    def __init__(self, trainer: Trainer, job: Job, codec: Codec) -> None:
        super().__init__(trainer, job, codec)
        self._sync = job.scenario.strategy.sync
        self._average = CodecMean(
            codec, job.workers, trainer.network.parameters, trainer.seed, feedback=False
        )
        self._centre: RealArray = self.models.mean(axis=0)
        self._before = self._centre

    @property
    def shown(self) -> RealArray:
        """The central model alone."""
        return self._centre[None]

    def run(self, times: list[float], recorder: CurveRecorder) -> RealArray:
        """Take the steps and return the central model."""
        super().run(times, recorder)
        return self._centre

    def step(self, step: int, gradients: RealArray) -> None:
        """Update each learner; if models are exchanged, correct it and move the central model."""
        if self.job.exchange(step).kind != "models":
            self.models = self.models - self.moves(gradients)
            return
        # Sent while gradients are computed, because they need no gradient of this step.
        corrections = self._sync.corrections(self.models, self._centre)
        self.models = self.models - self.moves(gradients) - corrections
        of_workers = corrections.reshape(self.job.workers, -1, corrections.shape[1]).sum(axis=1)
        # A worker sends the sum of its learners. z moves by the sum over all; the collective
        # returns the mean over workers.
        total = self.job.workers * self._average.mean(of_workers)
        moved = self._sync.moved(self._centre, self._before, total)
        self._centre, self._before = moved, self._centre


class Gossip(OwnModels):
    """Models mixed with the turn's neighbours at the start of a step, then updated by gradients.

    With local SGD models are mixed periodically, after a step.
    """

    def __init__(self, trainer: Trainer, job: Job, codec: Codec) -> None:
        super().__init__(trainer, job, codec)
        gossip = cast("GossipConfig", job.scenario.strategy.aggregation)
        turns = gossip.turns(job.workers, job.setting.seed)
        elements = trainer.network.parameters
        self._mixing = [mixing_matrix(turn) for turn in turns]
        self._step_size = gossip_step_size(codec, elements)
        # All workers know all initial models. Turns may share the array, which is not changed.
        self._known = [self.models] * len(turns)
        self._links = [
            CodecLink(codec, elements, trainer.seed, worker, feedback=False)
            for worker in range(trainer.workers)
        ]

    def step(self, step: int, gradients: RealArray) -> None:
        """Add the update to the mean of the old models, or update before mixing."""
        exchanged = self.job.exchange(step).kind
        turn = step % len(self._mixing)
        if exchanged == "gradients":
            self.models = self._mix(turn)
        self.models = self.models - self.moves(gradients)
        if exchanged == "models":
            self.models = self._mix(turn)

    def _mix(self, turn: int) -> RealArray:
        mixing = self._mixing[turn]
        if self.codec.exact:
            return np.asarray(mixing @ self.models)
        # A turn's neighbours only know what they received in such turns.
        changed = self.models - self._known[turn]
        arrived = [link.carry(own) for link, own in zip(self._links, changed, strict=True)]
        known = self._known[turn] + np.stack(arrived)
        self._known[turn] = known
        # Choco-Gossip's step, x += gamma (W - I) x_known: losses only affect the copies.
        return np.asarray(self.models + self._step_size * (mixing @ known - known))
