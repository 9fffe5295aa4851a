"""All workers of a run in one process.

The same local steps as in the run, with nothing sent anywhere.
"""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from dpsim.base.arrays import RealArray
from validate.training.local import Replica
from validate.training.settings import Training
from validate.training.shard import Shard
from validate.training.task import Digits


@dataclass(frozen=True, slots=True, eq=False)
class Replayed:
    """What a run should have given: losses by worker and iteration, and the final weights, flat."""

    losses: list[list[float]]
    weights: RealArray


class AllWorkers:
    """A replica and a shard for each worker; replicas all start as rank 0's did."""

    def __init__(self, training: Training, workers: int) -> None:
        self.training = training
        self.digits = Digits(training, "cpu")
        self.replicas = [Replica(training) for _ in range(workers)]
        self.shards = [
            Shard(len(self.digits), each, workers, training.batch, training.seed)
            for each in range(workers)
        ]
        self.losses: list[list[float]] = [[] for _ in range(workers)]

    def __len__(self) -> int:
        return len(self.replicas)

    def learn(self, worker: int, step: int) -> None:
        """Forward and backward of one worker on its batch of ``step``.

        They are at the weights that its replica has now.
        """
        indices = self.shards[worker].indices(step)
        loss = self.replicas[worker].learn(*self.digits.batch(indices))
        self.losses[worker].append(float(loss))

    def learn_all(self, step: int) -> None:
        """The same for all workers."""
        for worker in range(len(self)):
            self.learn(worker, step)

    def change(self, worker: int) -> Tensor:
        """What the worker's SGD makes of its gradient; its replica has moved by it."""
        replica = self.replicas[worker]
        # A clone, since SGD moves the weights in place.
        before = replica.weights.clone()
        replica.update()
        return replica.weights - before

    def done(self, weights: Tensor) -> Replayed:
        """The losses, and ``weights`` as the final ones."""
        return Replayed(self.losses, weights.detach().numpy().copy())


def mean(vectors: list[Tensor]) -> Tensor:
    """The mean of vectors, added up in order."""
    # A sum has no defined order in torch, and rounding depends on it; a copy, since += is in place.
    total = vectors[0].clone()
    for vector in vectors[1:]:
        total += vector
    return total / len(vectors)
