"""All-reduce of gradients: every worker ends with their sum, by one of the algorithms of `dpsim.collectives`."""

from __future__ import annotations

from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator, Field, WithJsonSchema

from dpsim.aggregation.operation import Operation
from dpsim.collectives import algorithm, algorithm_names
from dpsim.config import Config
from dpsim.workload import Model

_GRADIENT_BYTES = 4  # gradients are kept in fp32, also under automatic mixed precision


def _known(name: str) -> str:
    return algorithm(name).name


AlgorithmName = Annotated[str, AfterValidator(_known), WithJsonSchema({"type": "string", "enum": [*algorithm_names()]})]


class AllReduceConfig(Config):
    """Gradients are summed over all workers, who all end with the sum."""

    kind: Literal["allreduce"] = Field(description="Every worker ends with the sum of all gradients.")
    algorithm: AlgorithmName = Field(default="ring", description="How the all-reduce is carried out (dpsim catalogue algorithms).")

    def operations(self, model: Model) -> tuple[Operation, ...]:
        """One operation per parameter tensor, in the order in which the backward pass makes gradients ready."""
        tensors = model.tensors()
        order = np.arange(len(tensors.elements))[::-1]
        return tuple(
            Operation(f"tensor{index}", int(tensors.layer[index]), int(tensors.elements[index]) * _GRADIENT_BYTES)
            for index in order
        )
