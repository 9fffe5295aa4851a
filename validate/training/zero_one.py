"""ZeRO's first stage: DDP, with each worker's optimiser on a part of the parameters.

What a worker has updated it broadcasts to all. Source: Rajbhandari et al., "ZeRO", SC 2020;
``torch.distributed.optim.ZeroRedundancyOptimizer``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

from pydantic import Field

from validate.training.references import Ddp
from validate.training.worker import Worker


class ZeroOne(Ddp):
    """torch's ZeroRedundancyOptimizer beside DDP."""

    kind: Literal["zero-1"] = Field(  # type: ignore[assignment]
        default="zero-1", description="torch's DDP with ZeroRedundancyOptimizer."
    )

    def run(self, worker: Worker) -> None:
        """As DDP; broadcasts of weights are in the update."""
        # Before the first update, which would make the task's usual one.
        worker.replica.optimiser = self._optimiser(worker)
        super().run(worker)

    def alone(self, worker: Worker) -> Callable[[], None]:
        """With the optimiser of the rank's own part alone."""
        # The one inside, of this rank's parameters, broadcasts nothing.
        worker.replica.optimiser = self._optimiser(worker).optim
        return super().alone(worker)

    def _optimiser(self, worker: Worker) -> Any:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(
            worker.replica.model.parameters(),
            optimizer_class=worker.task.optimiser_class,
            process_group=worker.world.group,
            # Else each tensor is broadcast by itself.
            parameters_as_bucket_view=True,
            **worker.task.optimiser_settings(),
        )
