"""Local SGD: workers take steps of their own and average their models every H of them.

Parameter averaging is the same by samples. ``switch_after`` steps of BSP may come first (post-local
SGD). With H = 1, plain SGD and no overlap it is BSP, in time and in weights. Sources: Stich, "Local
SGD converges fast and communicates little", ICLR 2019; Lin et al., "Don't use large mini-batches,
use local SGD", ICLR 2020 (post-local).

With an outer step there are two levels. Workers average inside their group every H steps (with
H = 1 they exchange gradients, as under BSP). Every K averagings the groups meet: how far each has
moved since the last time is averaged over all, and an optimiser of its own takes that for a
gradient. The model may travel in fragments, each at its own time of the period of H K steps, while
computing goes on for some steps. Sources: Douillard et al., "DiLoCo: Distributed low-communication
training of language models", 2023; Douillard et al., "Streaming DiLoCo with overlapping
communication", 2025.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, NonNegativeInt, PositiveInt, model_validator

from dpsim.base.config import Config
from dpsim.base.errors import DpsimError
from dpsim.strategy.compression import CompressionConfig, NoCompressionConfig
from dpsim.strategy.sync.sync import Exchanged, Sync
from dpsim.topology import GroupSize, Mesh

_FLOAT = 4  # bytes: outer weights and momenta are fp32
# DiLoCo's outer rate with Nesterov; plain SGD at rate 1 makes the outer step an average.
_RATES = {"nesterov": 0.7, "sgd": 1.0}
_WITH_MOMENTA = ("nesterov",)


class OuterConfig(Config):
    """The step that all groups take together."""

    every: PositiveInt = Field(
        default=1, description="K: averagings inside groups from one outer step to the next."
    )
    optimizer: Literal["nesterov", "sgd"] = Field(
        default="nesterov",
        description=(
            "What takes the groups' mean movement for a gradient; sgd with a learning rate of 1 "
            "averages them."
        ),
    )
    learning_rate: Annotated[float, Field(gt=0)] | None = Field(
        default=None,
        description="Of the model that replay trains; 0.7 with nesterov, 1 with sgd if left out.",
    )
    momentum: Annotated[float, Field(ge=0, lt=1)] = Field(
        default=0.9, description="Nesterov's, of the model that replay trains."
    )
    fragments: PositiveInt = Field(
        default=1,
        le=1000,
        description="Parts of the model that travel at times of their own, evenly over the period.",
    )
    overlap: NonNegativeInt = Field(
        default=0,
        le=1_000_000,
        description="Steps that go on while a fragment is on its way.",
    )
    compression: CompressionConfig = Field(
        default=NoCompressionConfig(kind="none"),
        description="What is done to the groups' movements before they travel.",
    )

    @property
    def states(self) -> int:
        """Numbers that it keeps for each parameter: the weights that it moves, and momenta."""
        return 2 if self.optimizer in _WITH_MOMENTA else 1

    @property
    def state_bytes(self) -> int:
        """Bytes that it keeps for each parameter."""
        return _FLOAT * self.states

    @property
    def rate(self) -> float:
        """The learning rate, its optimiser's own where none is given."""
        return self.learning_rate or _RATES[self.optimizer]

    @property
    def momentum_factor(self) -> float:
        """The momentum, 0 of an optimiser that keeps none."""
        return self.momentum if self.optimizer in _WITH_MOMENTA else 0.0

    def parts(self, elements: int) -> list[slice]:
        """Where each fragment of so many elements is."""
        # Differences of rounded bounds, so that the fragments add up to the model.
        bounds = [elements * number // self.fragments for number in range(self.fragments + 1)]
        return [slice(*ends) for ends in pairwise(bounds)]

    def due(self, averaging: int) -> tuple[int, ...]:
        """The fragments that set out after an averaging (counted from 1).

        Fragment i goes (i + 1) K / F averagings into each period, rounded up.
        """
        place = (averaging - 1) % self.every
        # In whole numbers: a rounded fraction might send a fragment twice, or never.
        first = place * self.fragments // self.every
        return tuple(range(first, (place + 1) * self.fragments // self.every))


class LocalSgdConfig(Sync):
    """Workers step on their own and average their models now and then."""

    one_version: ClassVar[bool] = False
    also_called: ClassVar[tuple[str, ...]] = ("diloco", "post-local-sgd")

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
    group: GroupSize = Field(
        default="all",
        description=(
            "Workers that average every H steps, or exchange gradients where H is 1: all; node, "
            "those of each node; or a number of them (1: each alone)."
        ),
    )
    outer: OuterConfig | None = Field(
        default=None,
        description="A step over all groups, now and then (DiLoCo); groups have one in any case.",
    )

    @model_validator(mode="before")
    @classmethod
    def _groups_meet(cls, data: Any) -> Any:
        """Groups have an outer step, also where nothing is said of it."""
        if not isinstance(data, dict) or data.get("group", "all") == "all":
            return data
        return data if data.get("outer") is not None else {**data, "outer": {}}

    @model_validator(mode="after")
    def _two_levels(self) -> LocalSgdConfig:
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
        """The scenario's."""
        return self.outer

    @property
    def in_step(self) -> bool:
        """Where a group, from the first step on, exchanges gradients in each."""
        each_step = self.unit == "steps" and self.every == 1
        return self.outer is not None and each_step and self.switch_after == 0

    @property
    def first_own_step(self) -> int:  # type: ignore[override]
        """After the switch."""
        return self.switch_after

    @property
    def has_groups(self) -> bool:  # type: ignore[override]
        """Where the scenario names them."""
        return self.group != "all"

    def group_size(self, mesh: Mesh) -> int:
        """The workers of a group."""
        return mesh.size(self.group, "strategy.sync.group")

    def exchanges(self, step: int, period: int) -> Exchanged:
        """Gradients until the switch; models at the end of each period after it.

        On two levels, groups that meet in every step exchange gradients.
        """
        if step < self.switch_after or (self.outer is not None and period == 1):
            return "gradients"
        return "nothing" if (step - self.switch_after + 1) % period else "models"

    def fragments(self, step: int, period: int) -> tuple[int, ...]:
        """Those that are due after the averaging of ``step``."""
        averaging, rest = divmod(step - self.switch_after + 1, period)
        # Nothing is due before the switch, nor amid a period.
        if self.outer is None or averaging < 1 or rest:
            return ()
        return self.outer.due(averaging)

    def period(self, samples_per_step: int, epoch: int | None) -> int:
        """In steps, at least 1. Raises DpsimError for epochs of a data set that is not given."""
        if self.unit == "steps":
            return self.every
        if self.unit == "samples":
            # Steps are whole: the nearest number of them.
            return max(round(self.every / samples_per_step), 1)
        if epoch is None:
            raise DpsimError(
                "strategy.sync.unit: must be steps or samples where workload.dataset is not "
                "given, but got 'epochs'"
            )
        return self.every * epoch
