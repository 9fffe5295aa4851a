"""All-reduce of gradients: every worker ends with their sum, by one of the algorithms of `dpsim.collectives`."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, WithJsonSchema, model_validator

from dpsim.aggregation.operation import Operation
from dpsim.collectives import ALL_REDUCES
from dpsim.config import Config
from dpsim.workload import Model

_GRADIENT_BYTES = 4  # gradients are kept in fp32, also under automatic mixed precision


def _known(name: str) -> str:
    return ALL_REDUCES[name]


AlgorithmName = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": [*ALL_REDUCES]})]


class AllReduceConfig(Config):
    """Gradients are summed over all workers, who all end with the sum."""

    kind: Literal["allreduce"] = Field(description="Every worker ends with the sum of all gradients.")
    algorithm: AlgorithmName = Field(
        default="ring",
        description="How the all-reduce is carried out (dpsim catalogue algorithms); in-network: by switches that reduce; "
        "auto: the fastest of all at each size. Of a library: what it is held to; auto, its own choice, if left out.",
    )
    library: Literal["ideal", "nccl", "gloo", "mpi"] = Field(
        default="ideal",
        description="Whose all-reduce it is: ideal is the algorithm alone; nccl, gloo and mpi are timed as those libraries run.",
    )

    @model_validator(mode="before")
    @classmethod
    def _libraries_choose(cls, data: object) -> object:
        """A library chooses its algorithm itself unless it is told."""
        if isinstance(data, dict) and data.get("library", "ideal") != "ideal":
            return {"algorithm": "auto", **data}
        return data

    def operations(self, model: Model) -> tuple[Operation, ...]:
        """One operation per parameter tensor, in the order in which the backward pass makes gradients ready."""
        tensors = model.tensors()
        end = 2 * len(model.layers)
        return tuple(
            Operation(f"tensor{index}", int(tensors.elements[index]) * _GRADIENT_BYTES, end - int(tensors.layer[index]), end)
            for index in np.arange(len(tensors.elements))[::-1]
        )
