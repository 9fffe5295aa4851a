"""Local SGD: workers go their own way and average their models, not their gradients, every H steps.

With ``switch``, the first steps average gradients in every step, and local steps begin after them
(post-local SGD). With H = 1 averaging models after a step equals averaging gradients before it,
since all started the step alike and SGD is linear in the gradient. Momentum stays where it is: each
worker's own. Source: Stich, "Local SGD converges fast and communicates little", ICLR 2019; Lin et
al., "Don't use large mini-batches, use local SGD", ICLR 2020.
"""

from __future__ import annotations

from typing import Literal

import torch.distributed as dist
from pydantic import Field, NonNegativeInt, PositiveInt
from torch import Tensor

from validate.training.method import Method
from validate.training.worker import Worker

AVERAGED_GRADIENTS, AVERAGED_MODELS = "gradients averaged", "models averaged"


class LocalSgd(Method):
    """Models are averaged every so many steps."""

    kind: Literal["local-sgd"] = Field(
        default="local-sgd", description="Models are averaged every so many steps."
    )
    every: PositiveInt = Field(
        default=4, description="Steps from one average of models to the next, H."
    )
    switch: NonNegativeInt = Field(
        default=0, description="Steps at the start that average gradients instead."
    )

    def run(self, worker: Worker) -> None:
        """Steps, then one last average where the last step was not followed by one."""
        for step in worker.steps():
            worker.learn(step)
            if step < self.switch:
                _average(worker, worker.replica.gradient, AVERAGED_GRADIENTS, step)
            worker.update()
            if self._averages_models(step, worker.training.steps):
                _average(worker, worker.replica.weights, AVERAGED_MODELS, step)

    def _averages_models(self, step: int, steps: int) -> bool:
        # The last step is averaged after whatever is left of a period: all must end alike.
        local = step - self.switch + 1
        return local > 0 and (local % self.every == 0 or step == steps - 1)


def _average(worker: Worker, vector: Tensor, what: str, step: int) -> None:
    """Replace every worker's ``vector`` by the mean of all."""
    with worker.part("communication"):
        dist.all_reduce(vector, group=worker.world.group)
        vector /= worker.workers
    worker.note(what, worker.rank, step)
