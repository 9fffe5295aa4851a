"""No overlap: all gradients travel together after the whole backward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import Field

from dpsim.aggregation import Operation, merged
from dpsim.config import Config
from dpsim.overlap.plan import Outlook


class SequentialConfig(Config):
    """One merged operation after the backward pass."""

    kind: Literal["sequential"] = Field(description="Communication starts after the whole backward pass, all of it merged.")

    def plan(self, operations: tuple[Operation, ...], outlook: Outlook) -> tuple[Operation, ...]:
        """All operations as one, ready when the backward pass ends."""
        everything = merged("all", operations)
        return (replace(everything, ready=everything.needed),)
