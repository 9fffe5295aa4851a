"""Local SGD: workers train separately and average models, not gradients, every H steps.

With ``switch``, the first steps average gradients in every step, and local steps begin after them
(post-local SGD). With H = 1, averaging models after a step equals averaging gradients before it,
since all started the step with the same weights and SGD is linear in the gradient. Momentum is not
averaged. Source: Stich, "Local SGD converges fast and communicates little", ICLR 2019; Lin et al.,
"Don't use large mini-batches, use local SGD", ICLR 2020.

With an outer step, workers average inside groups, and periodically over all groups: the mean of the
groups' movements is the gradient for an outer optimiser, which moves a fragment of the model.
Source: Douillard et al., "DiLoCo", 2023; "Streaming DiLoCo", 2025.
"""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
import torch.distributed as dist
from pydantic import Field, NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError
from dpsim.strategy.sync import OuterConfig
from validate.training.method import Method, group_of
from validate.training.worker import Worker

AVERAGED_GRADIENTS, AVERAGED_MODELS = "gradients averaged", "models averaged"
MOVED = "all groups moved"


class Outer(Config):
    """The step that all groups take together."""

    every: PositiveInt = Field(
        default=1, description="Number of averagings inside groups between two outer steps."
    )
    learning_rate: PositiveFloat = Field(
        default=1.0, description="Learning rate of the outer step."
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.0, description="Nesterov momentum; 0 is plain SGD."
    )
    fragments: PositiveInt = Field(
        default=1, description="Number of model fragments, sent in turn over the period."
    )
    overlap: NonNegativeInt = Field(
        default=0, description="Number of steps that overlap with the sending of a fragment."
    )

    def due(self, averaging: int) -> tuple[int, ...]:
        """Return the fragments due after an averaging, counted from 1, by the strategy's rule."""
        return OuterConfig(every=self.every, fragments=self.fragments).due(averaging)


class LocalSgd(Method):
    """Models are averaged every so many steps."""

    kind: ClassVar[str] = "local-sgd"
    every: PositiveInt = Field(
        default=4, description="H: number of steps between averages of the models."
    )
    switch: NonNegativeInt = Field(
        default=0, description="Initial steps that average gradients instead."
    )
    group: PositiveInt | None = Field(
        default=None, description="Workers in each averaging group; all if left out."
    )
    outer: Outer | None = Field(default=None, description="The step over all groups, if any.")

    def workers(self, ranks: int) -> int:
        """Return all ranks; raises DpsimError if groups do not divide them evenly."""
        if self.group is not None and ranks % self.group:
            raise DpsimError(f"local-sgd: group must divide the {ranks} ranks, got {self.group}")
        return ranks

    def run(self, worker: Worker) -> None:
        """Train; average once more at the end unless the last step was followed by an average."""
        group, size = worker.world.group, self.group or worker.workers
        if size < worker.workers:
            group = group_of(worker, size)
        steps = worker.training.steps
        outer = None if self.outer is None else OuterStep(self.outer, worker)
        averagings = 0
        for step in worker.steps():
            worker.compute_gradient(step)
            # A group that averages in every step averages gradients, which is equivalent, before
            # the update.
            each_step = self.outer is not None and self.every == 1
            if step < self.switch or (each_step and size > 1):
                _average(worker, worker.replica.gradient, AVERAGED_GRADIENTS, step, group, size)
            worker.update()
            if outer is not None:
                outer.join(step)
            if not self._averages_models(step, steps):
                continue
            if size > 1 and not each_step:
                _average(worker, worker.replica.weights, AVERAGED_MODELS, step, group, size)
            averagings += 1
            if outer is not None:
                outer.fork(averagings, step, last=step == steps - 1)

    def _averages_models(self, step: int, steps: int) -> bool:
        # The last step is always followed by an average, so that all end with the same model.
        local = step - self.switch + 1
        return local > 0 and (local % self.every == 0 or step == steps - 1)


class OuterStep:
    """The weights at the last outer step, and the fragments in transit between groups."""

    def __init__(self, settings: Outer, worker: Worker) -> None:
        self._settings = settings
        self._worker = worker
        # Views: moving a fragment moves the whole.
        self._anchor = worker.replica.weights.clone()
        self._velocity = torch.zeros_like(self._anchor)
        self._anchors = self._anchor.tensor_split(settings.fragments)
        self._velocities = self._velocity.tensor_split(settings.fragments)
        self._weights = worker.replica.weights.tensor_split(settings.fragments)
        self._flying: list[tuple[int, int, Tensor, Tensor, Any]] = []

    def fork(self, averaging: int, step: int, *, last: bool) -> None:
        """Send the fragments that are due; at the ``last`` step, send all and wait."""
        parts = range(self._settings.fragments) if last else self._settings.due(averaging)
        # First wait for fragments in transit: all fragments then start from the same weights.
        if last:
            self.join(None)
        with self._worker.part("communication"):
            for part in parts:
                left = self._weights[part].clone()
                moved = self._anchors[part] - left
                work = dist.all_reduce(moved, group=self._worker.world.group, async_op=True)
                # Weights at sending are kept, to compute the steps taken during the transfer.
                self._flying.append((step + self._settings.overlap, part, left, moved, work))
        if last or not self._settings.overlap:
            self.join(None)

    def join(self, step: int | None) -> None:
        """Apply the fragments due at ``step``, or all if None."""
        due = [each for each in self._flying if step is None or each[0] <= step]
        for each in due:
            self._flying.remove(each)
            _, part, left, moved, work = each
            with self._worker.part("communication"):
                work.wait()
            with self._worker.part("update"):
                self._move(part, left, moved / self._worker.workers)
            self._worker.note(MOVED, self._worker.rank, step or 0)

    def _move(self, part: int, left: Tensor, mean: Tensor) -> None:
        """Apply Nesterov's step to the last outer weights, and keep steps taken meanwhile."""
        settings, anchor, velocity = self._settings, self._anchors[part], self._velocities[part]
        # Nesterov's momentum as in torch.optim.SGD: v = mu v + g, and the step is g + mu v.
        velocity.mul_(settings.momentum).add_(mean)
        anchor.sub_(mean + settings.momentum * velocity, alpha=settings.learning_rate)
        meanwhile = self._weights[part] - left
        self._weights[part].copy_(anchor + meanwhile)


def _average(worker: Worker, vector: Tensor, what: str, step: int, group: Any, size: int) -> None:
    """Replace every worker's ``vector`` by the mean of its group."""
    with worker.part("communication"):
        dist.all_reduce(vector, group=group)
        vector /= size
    worker.note(what, worker.rank, step)
