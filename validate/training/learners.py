"""Several learners on one device, kept together by synchronous model averaging (SMA).

As in Crossbow: a learner i moves by its own gradient and is drawn to the average model z; z moves
by the learners' corrections and keeps its momentum:

    c_i = a (w_i - z),   w_i -= rate x gradient_i + c_i,   z += sum of c_i + mu (z - z_prev)

z of a step is computed while the learners already compute the next gradients: they need it only
after those. On several ranks the sum of c_i is over all learners of all ranks, so that every rank
has the same z. Source: Koliousis et al., "Crossbow: scaling deep learning with small batch sizes on
multi-GPU servers", VLDB 12, 2019 (algorithm 1).
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AbstractContextManager
from typing import Annotated, Any, ClassVar

import torch
import torch.distributed as dist
from pydantic import Field, PositiveFloat, PositiveInt
from torch import Tensor

from validate.ranks.processes import World
from validate.training.method import Method
from validate.training.shard import Shard
from validate.training.worker import Worker

CORRECTED = "corrected"


class Learners(Method):
    """Learners that share a device and an average model."""

    kind: ClassVar[str] = "sma"
    overlaps_communication: ClassVar[bool] = True
    learners: PositiveInt = Field(
        default=2, le=64, description="k: number of learners on each rank's device."
    )
    correction: PositiveFloat | None = Field(
        default=None,
        le=1,
        description="a: strength of the correction towards the average; 1 / learners if left out.",
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.9, description="mu: momentum of the average model."
    )

    def pull_factor(self, learners: int) -> float:
        """Return the factor a for ``learners`` in all."""
        return self.correction or 1.0 / learners

    def run(self, worker: Worker) -> None:
        """Train in threads while another thread computes the average model of the step before.

        The exposed part of the latter counts as communication.
        """
        group = LearnerGroup(worker, self.learners)
        average = AverageModel(worker.replica.weights, self.momentum, worker.world)
        total, pull = None, self.pull_factor(group.total_learners)
        with ThreadPoolExecutor(group.threads + 1) as threads:
            for step in worker.steps():
                # Started before the learners, so that it can overlap with the whole step.
                average.fork()
                moved = threads.submit(average.move, total)
                with worker.part("compute"):
                    found = group.learn_all(threads, step)
                worker.losses.append(torch.stack(found).mean())
                with worker.part("communication"):
                    moved.result()
                    average.join()
                with worker.part("update"):
                    total = group.correct(average.weights, pull)
                worker.note(CORRECTED, worker.rank, step, average.version)
        # The last step's corrections have no later step to overlap with.
        average.fork()
        average.move(total)
        average.join()
        worker.replica.weights.copy_(average.weights)

    def computing_step(self, worker: Worker) -> Callable[[], None]:
        """Return a step of all learners of the rank, with corrections towards a fixed model."""
        group = LearnerGroup(worker, self.learners)
        threads, pull = ThreadPoolExecutor(group.threads), self.pull_factor(group.total_learners)

        def step() -> None:
            group.learn_all(threads, 0)
            group.correct(worker.replica.weights, pull)

        return step


class AverageModel:
    """z and its previous value; ``version`` counts its moves, which have their own stream."""

    def __init__(self, weights: Tensor, momentum: float, world: World) -> None:
        self.weights = weights.clone()
        self._previous = weights.clone()
        self._momentum = momentum
        self._world = world
        self._stream = world.face.new_stream()
        self.version = 0

    def fork(self) -> None:
        """Let the next move start when the compute stream has finished its current work."""
        self._world.face.fork([self._stream])

    def join(self) -> None:
        """Let the compute stream wait for the last move."""
        self._world.face.join([self._stream])

    def move(self, corrections: Tensor | None) -> None:
        """Move by this rank's ``corrections`` and all others', and by momentum.

        ``corrections`` are None before the first step.
        """
        if corrections is None:
            return
        with self._world.face.on_stream(self._stream):
            dist.all_reduce(corrections, group=self._world.group)
            # Make a new vector, since the next move's momentum needs the previous weights.
            moved = self.weights + corrections + self._momentum * (self.weights - self._previous)
        self._previous, self.weights = self.weights, moved
        self.version += 1


class LearnerGroup:
    """The learners of one rank: a replica, a shard and, on a GPU, a stream each."""

    def __init__(self, worker: Worker, learners: int) -> None:
        self.worker, self.total_learners = worker, learners * worker.workers
        self.replicas = [worker.replica_like() for _ in range(learners)]
        self.shards: list[Shard] = [
            worker.shard(worker.rank * learners + i, self.total_learners) for i in range(learners)
        ]
        self._streams = [worker.world.face.new_stream() for _ in range(learners)]
        for replica in self.replicas:
            replica.weights.copy_(worker.replica.weights)
        # Copies run on the default stream, for which the learners' own streams do not wait.
        worker.world.synchronize()

    @property
    def threads(self) -> int:
        """The number of threads: one on a GPU, where launches are serial, else one per learner."""
        return 1 if self.worker.world.on_gpu else len(self.replicas)

    def learn_all(self, threads: Executor, step: int) -> list[Tensor]:
        """Return all learners' losses, computed on their streams, which later work waits for."""
        face = self.worker.world.face
        face.fork(self._streams)
        losses = [threads.submit(self._learn, each, step) for each in range(len(self.replicas))]
        found = [loss.result() for loss in losses]
        face.join(self._streams)
        return found

    def _learn(self, learner: int, step: int) -> Tensor:
        """Return the loss of a learner's batch; its gradient stays in its replica."""
        with self._on_stream(learner):
            self.worker.pause(step)
            return self.replicas[learner].compute_gradient(
                *self.worker.batch(self.shards[learner], step)
            )

    def correct(self, average: Tensor, pull: float) -> Tensor:
        """Move every learner by its gradient and towards ``average``.

        Returns the sum of the corrections towards the average.
        """
        total = torch.zeros_like(average)
        for replica in self.replicas:
            # The equations take correction and gradient from the same w_i, before the update.
            correction = pull * (replica.weights - average)
            replica.update()
            replica.weights -= correction
            total += correction
        return total

    def _on_stream(self, learner: int) -> AbstractContextManager[Any]:
        return self.worker.world.face.on_stream(self._streams[learner])
