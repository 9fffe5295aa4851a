"""Replays workers that have models of their own and step together.

Local SGD, synchronous model averaging, gossip.

They meet where the simulation lets them meet; what each computes in between depends on nobody, so
that all gradients of a step are computed at once. Where a codec compresses models, what travels is
how far they are from what the receivers know, since a model itself would not survive it: for
averages the last average, for gossip the copy that neighbours hold (Koloskova, Stich and Jaggi,
"Decentralized stochastic optimization and gossip algorithms with compressed communication", ICML
2019). What such a difference loses is in the next one, so that gossip and the central average need
no error feedback beside it.
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
from dpsim.strategy.sync import LocalSgdConfig, SmaConfig
from dpsim.studies.replay.codec_links import CodecLink, CodecMean, gossip_step_size
from dpsim.studies.replay.curve import CurveRecorder
from dpsim.studies.replay.trainer import Trainer


class OwnModels(ABC):
    """A model and a velocity (learners, P) for each learner."""

    def __init__(self, trainer: Trainer) -> None:
        self.trainer = trainer
        self.models: RealArray = np.stack(
            [trainer.start(worker) for worker in range(trainer.workers)]
        )
        self._velocities = np.zeros_like(self.models)
        self._everyone = np.arange(trainer.workers)

    def run(self, times: list[float], recorder: CurveRecorder) -> RealArray:
        """Take as many steps as there are ``times``.

        Returns the mean of all models (P,), or the central one.
        """
        samples_a_step = self.trainer.workers * self.trainer.batch
        # One turn more than there are steps: the first only measures the start.
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
        """What becomes of all models (learners, P) with the gradients of ``step``."""

    def moves(self, gradients: RealArray) -> RealArray:
        """How SGD moves each learner."""
        self._velocities = self.trainer.config.momentum * self._velocities + gradients
        return self.trainer.config.learning_rate * self._velocities


class LocalSgd(OwnModels):
    """Models are averaged now and then; gradients before the switch, where there is one.

    What goes through the codec is how far models are from the last average.
    """

    def __init__(self, trainer: Trainer, job: Job, codec: Codec) -> None:
        super().__init__(trainer)
        self._sync, self._period = cast("LocalSgdConfig", job.scenario.strategy.sync), job.period
        self._codec, self._workers = codec, job.workers
        self._average = CodecMean(codec, job.workers, trainer.network.parameters, trainer.seed)
        self._common = self.models.mean(axis=0)

    def step(self, step: int, gradients: RealArray) -> None:
        """A step of their own, and what the simulated workers exchange with it."""
        exchanged = self._sync.exchanges(step, self._period)
        if exchanged == "gradients":
            mean = self._average.mean(self._of_workers(gradients))
            gradients = np.broadcast_to(mean, gradients.shape)
        self.models = self.models - self.moves(gradients)
        if exchanged == "gradients":
            self._common = self.models.mean(axis=0)
        if exchanged == "models":
            self._common = self._mean_model()
            self.models = np.repeat(self._common[None], len(self.models), axis=0)

    def _mean_model(self) -> RealArray:
        models = self._of_workers(self.models)
        if self._codec.exact:
            return self._average.mean(models)
        return np.asarray(self._common + self._average.mean(models - self._common))

    def _of_workers(self, vectors: RealArray) -> RealArray:
        """The mean over the learners of each worker."""
        return np.asarray(vectors.reshape(self._workers, -1, vectors.shape[1]).mean(axis=1))


class ModelAveraging(OwnModels):
    """c_i = a (w_i - z), w_i -= g_i + c_i, z += sum of c_i + mu (z - z before), as in Crossbow.

    A learner is corrected when z of the step before is there, at the latest as its next step
    begins. A codec that keeps little of the corrections makes z late, and a large mu may then let
    it swing.
    """

    def __init__(self, trainer: Trainer, job: Job, codec: Codec) -> None:
        super().__init__(trainer)
        sync = cast("SmaConfig", job.scenario.strategy.sync)
        self._pull, self._inertia = sync.correction or 1 / trainer.workers, sync.momentum
        self._average = CodecMean(
            codec, job.workers, trainer.network.parameters, trainer.seed, feedback=False
        )
        self._workers = job.workers
        self._centre: RealArray = self.models.mean(axis=0)
        self._before = self._centre

    @property
    def shown(self) -> RealArray:
        """The central average model alone."""
        return self._centre[None]

    def run(self, times: list[float], recorder: CurveRecorder) -> RealArray:
        """Returns the central average model."""
        super().run(times, recorder)
        return self._centre

    def step(self, step: int, gradients: RealArray) -> None:
        """Correct each learner towards the average, and move the average by the corrections."""
        # They need no gradient of this step, so that they can travel while those are computed.
        corrections = self._pull * (self.models - self._centre)
        self.models = self.models - self.moves(gradients) - corrections
        of_workers = corrections.reshape(self._workers, -1, corrections.shape[1]).sum(axis=1)
        # A worker's learners meet on its GPU, so what travels is their sum. z moves by the sum over
        # all learners, of which the collective gives the mean over workers.
        total = self._workers * self._average.mean(of_workers)
        moved = self._centre + total + self._inertia * (self._centre - self._before)
        self._centre, self._before = moved, self._centre


class Gossip(OwnModels):
    """Each mixes its model as a step begins with its neighbours' of that turn.

    Then it adds what its gradient changes. With local SGD models are mixed now and then instead,
    after a step.
    """

    def __init__(self, trainer: Trainer, job: Job, codec: Codec) -> None:
        super().__init__(trainer)
        gossip = cast("GossipConfig", job.scenario.strategy.aggregation)
        turns = gossip.turns(job.workers, job.setting.seed)
        elements = trainer.network.parameters
        self._mixing = [mixing_matrix(turn).astype(self.models.dtype) for turn in turns]
        self._sync, self._period = job.scenario.strategy.sync, job.period
        self._step_size = gossip_step_size(trainer.config.gossip_step, codec, elements)
        self._codec = codec
        # All know what everybody starts from. Models are replaced and never changed in place, so
        # that turns may share the array.
        self._known = [self.models] * len(turns)
        self._links = [
            CodecLink(codec, elements, trainer.seed, worker, feedback=False)
            for worker in range(trainer.workers)
        ]

    def step(self, step: int, gradients: RealArray) -> None:
        """The update is added to the mean of the old models, or made before they are mixed."""
        exchanged = self._sync.exchanges(step, self._period)
        turn = step % len(self._mixing)
        if exchanged == "gradients":
            self.models = self._mixed(turn)
        self.models = self.models - self.moves(gradients)
        if exchanged == "models":
            self.models = self._mixed(turn)

    def _mixed(self, turn: int) -> RealArray:
        mixing = self._mixing[turn]
        if self._codec.exact:
            return np.asarray(mixing @ self.models)
        # Other turns have other neighbours, who know what they were told in such turns alone.
        changed = self.models - self._known[turn]
        arrived = [link.carry(own) for link, own in zip(self._links, changed, strict=True)]
        known = self._known[turn] + np.stack(arrived)
        self._known[turn] = known
        # Choco-Gossip's step, x += gamma (W - I) x_known: the model itself stays whole, and what
        # the codec loses is missing from the copies alone.
        return np.asarray(self.models + self._step_size * (mixing @ known - known))
