"""What a method of training is.

One file, one configuration, and what each rank does from the first step to the last.
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
    """How workers come to a common model. ``kind`` is its name; it runs with nothing but that."""

    kind: str
    by_host: ClassVar[bool] = False
    """Whether its messages go through the hosts' memory, on GPUs too."""
    in_float32: ClassVar[bool] = False
    """Whether its messages are rounded to float32, whatever format weights have."""
    divides: ClassVar[bool] = False
    """Whether each rank holds a part of the model, so that no rank may build all of it."""

    @property
    def flat(self) -> bool:
        """Whether it works on the model as one vector; libraries divide or wrap it themselves."""
        return True

    @property
    def hides(self) -> bool:
        """Whether it communicates beside computing without telling for how long."""
        return False

    def workers(self, ranks: int) -> int:
        """How many of the ranks, the first ones, compute gradients.

        Raises DpsimError where there are too few ranks.
        """
        return ranks

    def missing(self) -> str:
        """What this machine lacks to run it, "" for nothing."""
        return ""

    @abstractmethod
    def run(self, worker: Worker) -> None:
        """What a rank does.

        All start with the same weights, and each ends with its final ones in its replica.
        """

    def alone(self, worker: Worker) -> Callable[[], None]:
        """One step of a worker's computing, with nothing sent."""
        batch = worker.task.batch(torch.empty(0))

        def step() -> None:
            worker.replica.learn(*batch)
            worker.replica.update()

        return step

    def _at_least(self, ranks: int, least: int) -> None:
        if ranks < least:
            raise DpsimError(f"{self.kind}: ranks must be at least {least}, but got {ranks}")


def silent_group(worker: Worker, size: int) -> Any:
    """The group of this rank and its neighbours, ``size`` in all, that sends nothing.

    What it gathers are copies of a rank's own; all workers must ask for it.
    """
    # Torch's group for tests, registered by its import; it has no public name.
    from torch.testing._internal.distributed import fake_pg  # noqa: F401

    starts = range(0, worker.workers, size)
    groups = [dist.new_group([*range(at, at + size)], backend="fake") for at in starts]
    return groups[worker.rank // size]


class Synchronous(Method):
    """Bulk-synchronous: each worker's gradient is replaced by the mean over all in every step."""

    def run(self, worker: Worker) -> None:
        """Local gradient, average, update."""
        for step in worker.steps():
            worker.learn(step)
            with worker.part("communication"):
                self.average(worker, worker.replica.gradient)
            worker.update()

    @abstractmethod
    def average(self, worker: Worker, gradient: Tensor) -> None:
        """Replace this rank's ``gradient``, flat, by the mean over all ranks."""
