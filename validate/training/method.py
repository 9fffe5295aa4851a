"""The base classes of methods of training.

A method is one file with its configuration and the work of each rank from first to last step.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, ClassVar

import torch
import torch.distributed as dist
from torch import Tensor

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError
from validate.training.worker import Worker


class Method(Config):
    """How workers reach a common model; all settings have defaults."""

    kind: ClassVar[str]
    """Its name on the command line and in records."""
    via_host_memory: ClassVar[bool] = False
    """Whether its messages go through the hosts' memory, on GPUs too."""
    in_float32: ClassVar[bool] = False
    """Whether its messages are rounded to float32, whatever format weights have."""
    divides: ClassVar[bool] = False
    """Whether each rank holds a part of the model, so that no rank may build all of it."""
    flat: ClassVar[bool] = True
    """Whether it works on the model as one vector; libraries shard or wrap it themselves."""
    overlaps_communication: ClassVar[bool] = False
    """Whether it overlaps communication with computing without timing it."""
    least_ranks: ClassVar[int] = 1

    def workers(self, ranks: int) -> int:
        """Return how many of the ranks, the first ones, compute gradients.

        Raises DpsimError if there are too few ranks.
        """
        self._at_least(ranks, self.least_ranks)
        return ranks

    def missing(self) -> str:
        """Return what this machine lacks to run the method, "" for nothing."""
        return ""

    @abstractmethod
    def run(self, worker: Worker) -> None:
        """Train on one rank.

        All start with the same weights, and each ends with the final ones in its replica.
        """

    def computing_step(self, worker: Worker) -> Callable[[], None]:
        """Return one step of a worker's computing, without communication."""
        batch = worker.task.batch(torch.empty(0))

        def step() -> None:
            worker.replica.compute_gradient(*batch)
            worker.replica.update()

        return step

    def _at_least(self, ranks: int, least: int) -> None:
        if ranks < least:
            raise DpsimError(f"{self.kind}: ranks must be at least {least}, but got {ranks}")


def silent_group(worker: Worker, size: int) -> Any:
    """Return a group of this rank and its neighbours, ``size`` in all, that sends nothing.

    Gathers return copies of the rank's own data; all workers must call this.
    """
    # Torch's group for tests, registered by its import; it has no public name.
    from torch.testing._internal.distributed import fake_pg  # noqa: F401

    return group_of(worker, size, "fake")


def group_of(worker: Worker, size: int, backend: str | None = None) -> Any:
    """Return a new group of this rank and its neighbours, ``size`` in all."""
    # Every rank must create every group, its own or not.
    starts = range(0, worker.workers, size)
    groups = [dist.new_group(range(at, at + size), backend=backend) for at in starts]
    return groups[worker.rank // size]


class Synchronous(Method):
    """Bulk-synchronous: each worker's gradient is replaced by the mean over all in every step."""

    def run(self, worker: Worker) -> None:
        """Train: local gradient, average, update."""
        for step in worker.steps():
            worker.compute_gradient(step)
            with worker.part("communication"):
                self.average(worker, worker.replica.gradient)
            worker.update()

    @abstractmethod
    def average(self, worker: Worker, gradient: Tensor) -> None:
        """Replace this rank's ``gradient``, flat, by the mean over all ranks."""
