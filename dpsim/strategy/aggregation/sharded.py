"""Sharded data parallelism.

Workers divide among them what all-reduce keeps m times over; ZeRO stages 1 to 3, FSDP being stage
3.

Stage 1 divides the optimiser's state, 2 the gradients too, 3 the weights too. Gradients are
reduce-scattered, so that each worker updates its part. Below stage 3 the updated weights are then
all-gathered: 2 (m-1)/m S in all, as much as an all-reduce. In stage 3 each unit of layers is
gathered before its forward pass and again before its backward pass, ``prefetch`` units ahead: 3
(m-1)/m S. Weights and gradients travel in ``weight_bytes`` and 4 bytes an element. Sources:
Rajbhandari et al., "ZeRO", SC 2020; Zhao et al., "PyTorch FSDP", VLDB 16, 2023.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import numpy as np
from pydantic import Field, NonNegativeInt

from dpsim.base.units import PositiveBytes
from dpsim.strategy.aggregation.aggregation import Aggregation, Turns
from dpsim.strategy.aggregation.collective_call import (
    ELEMENT,
    CollectiveCall,
    gradients,
    whole_model,
)
from dpsim.strategy.aggregation.setting import Setting
from dpsim.workload import Model

Unit = tuple[int, int, int]  # first layer, layer after the last, elements


class ShardedConfig(Aggregation):
    """Optimiser state, gradients and weights are divided among the workers."""

    kind: Literal["sharded"] = Field(
        description="Optimiser state, gradients and weights are divided among the workers."
    )
    stage: Literal[1, 2, 3] = Field(
        default=3,
        description="1: optimiser state is divided; 2: gradients too; 3: weights too (FSDP).",
    )
    weight_bytes: Literal[2, 4] = Field(
        default=4, description="Bytes of a weight as it is gathered."
    )
    unit_size: PositiveBytes = Field(
        default=100 * 2.0**20,
        description=(
            "Stage 3: weights of successive layers are gathered in units of at least this much "
            "(fp32)."
        ),
    )
    prefetch: NonNegativeInt = Field(
        default=1, le=1000, description="Stage 3: how many units ahead gathering starts."
    )
    library: Literal["ideal", "nccl"] = Field(
        default="ideal", description="Whose reduce-scatter and all-gather these are."
    )

    @property
    def sharding_stage(self) -> int:
        """The scenario's."""
        return self.stage

    @property
    def shards(self) -> bool:
        """In every stage."""
        return True

    def calls(self, model: Model, batch: int) -> tuple[CollectiveCall, ...]:
        """Reduce-scatters of gradients, and all-gathers of weights at the start of a step or before
        each unit's passes.
        """
        scatters = gradients(model, "reduce-scatter")
        if self.stage < 3:
            size = model.parameters * self.weight_bytes
            return (CollectiveCall("weights", size, 0, 0, "all-gather", "weights"), *scatters)
        return (*self._gathers(model), *scatters)

    def averaging(self, model: Model) -> tuple[CollectiveCall, ...]:
        """Nobody holds a whole model to average.

        The table of combinations does not let it come to this.
        """
        return whole_model(model, "all-gather")

    def collectives(self, setting: Setting) -> Mapping[str, Turns]:
        """A reduce-scatter and an all-gather of all workers."""
        algorithm = "ring" if self.library == "ideal" else "auto"
        return {
            name: (setting.timed(algorithm, name, self.library),)
            for name in ("reduce-scatter", "all-gather")
        }

    def startup(self, model: Model, state_bytes: int, setting: Setting) -> float:
        """The weights are broadcast (in stage 3 scattered), the optimiser's state is scattered."""
        workers = setting.cluster.ranks
        if workers == 1:
            return 0.0
        weights = min(model.parameters * ELEMENT, state_bytes)
        whole = weights if self.stage < 3 else 0
        parts = state_bytes - whole
        start = np.zeros(workers)
        broadcast = (
            setting.timed("tree", "broadcast").finish(start, whole).finishes.max() if whole else 0.0
        )
        scattered = (
            setting.timed("tree", "scatter").finish(start, parts).finishes.max() if parts else 0.0
        )
        return float(broadcast + scattered)

    def _gathers(self, model: Model) -> tuple[CollectiveCall, ...]:
        """All-gathers of the units.

        In order for the forward pass, and back for the backward pass but for the last, still there.
        """
        units, end = self.units(model), 2 * len(model.layers)
        forward = [(first, f"unit{number}") for number, (first, _, _) in enumerate(units)]
        backward = [
            (end - last, f"unit{number}-again")
            for number, (_, last, _) in reversed([*enumerate(units)])
        ][1:]
        sizes = [elements for *_, elements in units] + [elements for *_, elements in units[::-1]][
            1:
        ]
        places = [place for place, _ in (*forward, *backward)]
        return tuple(
            CollectiveCall(
                name,
                size * self.weight_bytes,
                places[max(number - self.prefetch, 0)],
                place,
                "all-gather",
                "weights",
            )
            for number, ((place, name), size) in enumerate(
                zip((*forward, *backward), sizes, strict=True)
            )
        )

    def units(self, model: Model) -> list[Unit]:
        """Runs of layers that are gathered together."""
        units: list[Unit] = []
        first = elements = 0
        for index, layer in enumerate(model.layers, 1):
            elements += layer.own_weights
            if elements * ELEMENT >= self.unit_size or index == len(model.layers):
                units.append((first, index, elements))
                first, elements = index, 0
        return [unit for unit in units if unit[2]]
