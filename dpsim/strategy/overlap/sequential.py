"""No overlap: all gradients are sent together after the whole backward pass."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar, Literal

from pydantic import Field

from dpsim.strategy.aggregation import Calls, merged
from dpsim.strategy.overlap.plan import Outlook, Overlap
from dpsim.workload import Model


class SequentialConfig(Overlap):
    """One merged call after the backward pass."""

    overlaps: ClassVar[bool] = False

    kind: Literal["sequential"] = Field(
        description="All gradients are sent together after the whole backward pass."
    )

    def most_calls(self, model: Model) -> int:
        """Return 1."""
        return 1

    def plan(self, calls: Calls, outlook: Outlook) -> Calls:
        """Return all calls as one, ready when the backward pass ends."""
        everything = merged("all", calls)
        # After the last gradient, backward still passes front layers without parameters.
        return (replace(everything, ready=outlook.pass_end),)
