"""Local SGD: workers take steps of their own and average their models every H of them.

Parameter averaging is the same by samples. ``switch_after`` steps of BSP may come first (post-local
SGD). With H = 1, plain SGD and no overlap it is BSP, in time and in weights. Sources: Stich, "Local
SGD converges fast and communicates little", ICLR 2019; Lin et al., "Don't use large mini-batches,
use local SGD", ICLR 2020 (post-local).
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from dpsim.base.errors import DpsimError
from dpsim.strategy.sync.sync import Exchanged, Sync


class LocalSgdConfig(Sync):
    """Workers step on their own and average their models now and then."""

    kind: Literal["local-sgd"] = Field(
        description="Workers step on their own and average their models now and then."
    )
    every: PositiveInt = Field(
        default=8, description="H: how much lies between two averagings, in units of unit."
    )
    unit: Literal["steps", "samples", "epochs"] = Field(
        default="steps",
        description=(
            "What every counts: steps, samples of all workers, or epochs (of workload.dataset)."
        ),
    )
    switch_after: NonNegativeInt = Field(
        default=0, description="Steps of BSP before, warm-up included (post-local SGD)."
    )

    @property
    def one_version(self) -> bool:
        """Each has a model of its own."""
        return False

    def exchanges(self, step: int, period: int) -> Exchanged:
        """Gradients until the switch; models at the end of each period after it."""
        if step < self.switch_after:
            return "gradients"
        return "nothing" if (step - self.switch_after + 1) % period else "models"

    def period(self, samples_per_step: int, epoch: int | None) -> int:
        """In steps, at least 1. Raises DpsimError for epochs of a data set that is not given."""
        if self.unit == "steps":
            return self.every
        if self.unit == "samples":
            return max(round(self.every / samples_per_step), 1)
        if epoch is None:
            raise DpsimError(
                "strategy.sync.unit: must be steps or samples where workload.dataset is not "
                "given, but got 'epochs'"
            )
        return self.every * epoch
