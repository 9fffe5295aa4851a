"""ZeRO's first stage: DDP, with each worker's optimiser on a part of the parameters.

What a worker has updated it broadcasts to all. Source: Rajbhandari et al., "ZeRO", SC 2020;
``torch.distributed.optim.ZeroRedundancyOptimizer``.
"""

from __future__ import annotations

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
        from torch.distributed.optim import ZeroRedundancyOptimizer

        replica = worker.replica
        own: Any = ZeroRedundancyOptimizer(
            replica.model.parameters(),
            optimizer_class=replica.task.optimiser_class,
            process_group=worker.world.group,
            **replica.task.optimiser_settings(),
        )
        # Before the first update, which would make the task's usual one.
        replica.optimiser = own
        super().run(worker)
