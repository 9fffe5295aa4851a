"""Local SGD: workers take H steps on their own, and then average their models.

With H counted in samples it is also called parameter averaging. ``switch_after`` steps of BSP may
come first (post-local SGD). With H = 1, plain SGD and no overlap it equals BSP, in time and in
weights. Sources: Stich, "Local SGD converges fast and communicates little", ICLR 2019; Lin et al.,
"Don't use large mini-batches, use local SGD", ICLR 2020 (post-local).

With an outer step there are two levels. Workers average inside their group every H steps (with H =
1 they exchange gradients, as in BSP). Every K averagings the groups synchronise: their movements
since the last time are averaged, and an outer optimiser applies the average as if it were a
gradient. The model may be sent in fragments, each at its own time in the period of H K steps, while
computing continues for some steps. Sources: Douillard et al., "DiLoCo: Distributed
low-communication training of language models", 2023; Douillard et al., "Streaming DiLoCo with
overlapping communication", 2025.
"""

from __future__ import annotations

from typing import Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from dpsim.base.errors import DpsimError
from dpsim.strategy.sync.outer_step import OuterConfig
from dpsim.strategy.sync.sync import Exchanged, Sync
from dpsim.topology import GroupSize, Mesh


class LocalSgdConfig(Sync):
    """Workers take local steps and average their models periodically."""

    label: ClassVar[str] = "local SGD"
    one_version: ClassVar[bool] = False
    also_called: ClassVar[tuple[str, ...]] = ("diloco", "post-local-sgd")

    kind: Literal["local-sgd"] = Field(
        description="Workers take local steps and average their models periodically."
    )
    every: PositiveInt = Field(
        default=8, description="H: interval between two averagings, in the unit given by `unit`."
    )
    unit: Literal["steps", "samples", "epochs"] = Field(
        default="steps",
        description="Unit of `every`: steps, samples of all workers, or epochs (workload.dataset).",
    )
    switch_after: NonNegativeInt = Field(
        default=0, description="Initial steps with BSP, warm-up included (post-local SGD)."
    )
    group: GroupSize = Field(
        default="all",
        description=(
            "Groups of workers that average every H steps, or exchange gradients if H is 1. all: "
            "one group; node: the workers of each node; or a number of workers (1: each on its "
            "own)."
        ),
    )
    outer: OuterConfig | None = Field(
        default=None,
        description="Periodic outer step over all groups (DiLoCo); always present with groups.",
    )

    @model_validator(mode="before")
    @classmethod
    def _add_outer_step(cls, data: Any) -> Any:
        """Add an outer step to groups that have none."""
        if not isinstance(data, dict) or data.get("group", "all") == "all":
            return data
        return data if data.get("outer") is not None else {**data, "outer": {}}

    @model_validator(mode="after")
    def _check_outer_of_all(self) -> LocalSgdConfig:
        if self.group == "all" and self.outer is not None:
            for name, least in (("fragments", 1), ("overlap", 0)):
                if getattr(self.outer, name) > least:
                    raise ValueError(
                        f"outer.{name} must be {least} where group is all, which leaves nothing to "
                        f"send (group: 1 lets each worker go alone), but got "
                        f"{getattr(self.outer, name)}"
                    )
        return self

    @property
    def outer_step(self) -> OuterConfig | None:  # type: ignore[override]
        return self.outer

    @property
    def in_step(self) -> bool:
        """Whether the workers of a group exchange gradients in each step, from the first one on."""
        each_step = self.unit == "steps" and self.every == 1
        return self.outer is not None and each_step and self.switch_after == 0

    @property
    def first_own_step(self) -> int:  # type: ignore[override]
        """The first step after the switch."""
        return self.switch_after

    @property
    def has_groups(self) -> bool:  # type: ignore[override]
        return self.group != "all"

    def group_size(self, mesh: Mesh) -> int:
        """Return the number of workers in a group."""
        return mesh.size(self.group, "strategy.sync.group")

    def exchanges(self, step: int, period: int) -> Exchanged:
        """Return gradients until the switch, and models at the end of each period after it.

        On two levels, groups that average in every step exchange gradients.
        """
        if step < self.switch_after or (self.outer is not None and period == 1):
            return "gradients"
        return "nothing" if (step - self.switch_after + 1) % period else "models"

    def fragments(self, step: int, period: int) -> tuple[int, ...]:
        """Return the fragments that are due after the averaging of ``step``."""
        averaging, rest = divmod(step - self.switch_after + 1, period)
        # Nothing is due before the switch, nor within a period.
        if self.outer is None or averaging < 1 or rest:
            return ()
        return self.outer.due(averaging)

    def period(self, samples_per_step: int, epoch: int | None) -> int:
        """Return the period in steps, at least 1. Raises DpsimError for epochs without data set."""
        if self.unit == "steps":
            return self.every
        if self.unit == "samples":
            # The nearest whole number of steps.
            return max(round(self.every / samples_per_step), 1)
        if epoch is None:
            raise DpsimError(
                "strategy.sync.unit: must be steps or samples where workload.dataset is not "
                "given, but got 'epochs'"
            )
        return self.every * epoch
