"""Asynchronous parallel: no worker ever waits for another.

With parameter servers each worker pushes, pulls and continues. With gossip it averages its model
with one random neighbour (AD-PSGD). With an all-reduce the first worker to arrive starts it, and
the others' communication threads join with zeros or a late gradient (a solo collective). Sources:
Dean et al., "Large scale distributed deep networks", NeurIPS 2012; Lian et al., ICML 2018; Li et
al., "Taming unbalanced training workloads in deep learning with partial collective operations",
PPoPP 2020.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from dpsim.strategy.sync.gate import Gate, QuorumGate
from dpsim.strategy.sync.sync import Sync


class AspConfig(Sync):
    """No worker ever waits for another."""

    label: ClassVar[str] = "ASP"
    waits: ClassVar[bool] = False
    also_called: ClassVar[tuple[str, ...]] = ("async", "asynchronous")
    difference: ClassVar[str] = "gradients are stale"  # others may be applied in between

    kind: Literal["asp"] = Field(description="No worker ever waits for another.")

    def gate(self, workers: int) -> Gate:
        """Return a gate with a quorum of one: each gradient is an update."""
        # A quorum of one is a solo collective over an all-reduce, and a push at servers.
        return QuorumGate(workers, 1)
