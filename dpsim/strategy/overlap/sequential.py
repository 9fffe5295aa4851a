"""No overlap: all gradients travel together after the whole backward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from dpsim.strategy.aggregation import Operation, merged
from dpsim.strategy.overlap.plan import Outlook, Overlap


class SequentialConfig(Overlap):
    """One merged operation after the backward pass."""

    beside: ClassVar[bool] = False

    kind: Literal["sequential"] = Field(
        description="Communication starts after the whole backward pass, all of it merged."
    )

    def plan(self, operations: tuple[Operation, ...], outlook: Outlook) -> tuple[Operation, ...]:
        """All operations as one, ready when the backward pass ends."""
        everything = merged("all", operations)
        return (replace(everything, ready=everything.needed),)
