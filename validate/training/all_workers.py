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
    """The expected result of a run: losses by worker and iteration, and the final weights, flat."""

    losses: list[list[float]]
    weights: RealArray


class AllWorkers:
    """A replica and a shard for each worker; all replicas start with rank 0's weights."""

    def __init__(self, training: Training, workers: int) -> None:
        self.training = training
        self.digits = Digits(training, "cpu")
        self.replicas = [Replica(training, self.digits) for _ in range(workers)]
        self.shards = [
            Shard(len(self.digits), each, workers, training.batch, training.seed)
            for each in range(workers)
        ]
        self.losses: list[list[float]] = [[] for _ in range(workers)]

    def __len__(self) -> int:
        return len(self.replicas)

    def compute_gradient(self, worker: int, step: int) -> None:
        """Run forward and backward of one worker on its batch of ``step``.

        The worker's replica keeps the weights that it has.
        """
        indices = self.shards[worker].indices(step)
        loss = self.replicas[worker].compute_gradient(*self.digits.batch(indices))
        self.losses[worker].append(float(loss))

    def learn_all(self, step: int) -> None:
        """Run forward and backward of all workers."""
        for worker in range(len(self)):
            self.compute_gradient(worker, step)

    def change(self, worker: int) -> Tensor:
        """Update the worker's replica by SGD, and return the change of its weights."""
        replica = self.replicas[worker]
        # A clone, since SGD updates the weights in place.
        before = replica.weights.clone()
        replica.update()
        return replica.weights - before

    def done(self, weights: Tensor) -> Replayed:
        """Return the losses, with ``weights`` as the final ones."""
        return Replayed(self.losses, weights.detach().numpy().copy())


def mean(vectors: list[Tensor]) -> Tensor:
    """Return the mean of vectors, added up in order."""
    # A sum has no defined order in torch, and rounding depends on it; a copy, since += is in place.
    total = vectors[0].clone()
    for vector in vectors[1:]:
        total += vector
    return total / len(vectors)
