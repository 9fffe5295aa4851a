"""ZeRO's first stage: DDP, with each worker's optimiser on a part of the parameters.

Each worker broadcasts the parameters that it has updated. Source: Rajbhandari et al., "ZeRO", SC
2020; ``torch.distributed.optim.ZeroRedundancyOptimizer``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from validate.training.references import Ddp
from validate.training.worker import Worker


class ZeroOne(Ddp):
    """torch's ZeroRedundancyOptimizer beside DDP."""

    kind: ClassVar[str] = "zero-1"

    def run(self, worker: Worker) -> None:
        """Train like DDP; broadcasts of weights count as update."""
        # Before the first update, which would otherwise create the task's usual optimiser.
        worker.replica.optimiser = self._optimiser(worker)
        super().run(worker)

    def alone(self, worker: Worker) -> Callable[[], None]:
        """Return a step with the optimiser of the rank's own part only."""
        # The inner optimiser, of this rank's parameters, broadcasts nothing.
        worker.replica.optimiser = self._optimiser(worker).optim
        return super().alone(worker)

    def _optimiser(self, worker: Worker) -> Any:
        from torch.distributed.optim import ZeroRedundancyOptimizer

        return ZeroRedundancyOptimizer(
            worker.replica.model.parameters(),
            optimizer_class=worker.task.optimiser_class,
            process_group=worker.world.group,
            # Otherwise each tensor is broadcast by itself.
            parameters_as_bucket_view=True,
            **worker.task.optimiser_settings(),
        )
