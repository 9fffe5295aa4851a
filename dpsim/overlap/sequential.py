"""No overlap: all gradients travel together after the whole backward pass."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from dpsim.aggregation import Operation, merged
from dpsim.config import Config


class SequentialConfig(Config):
    """One merged operation after the backward pass."""

    kind: Literal["sequential"] = Field(description="Communication starts after the whole backward pass, all of it merged.")

    def plan(self, operations: tuple[Operation, ...]) -> tuple[Operation, ...]:
        """All operations as one, ready when the backward pass ends."""
        everything = merged("all", operations)
        return (Operation(everything.name, 0, everything.nbytes),)
