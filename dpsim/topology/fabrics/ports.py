"""The ends of a fabric: one port for each network card, node by node."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class Ports:
    """``count`` ports of ``rate`` B/s each way, each at a link that takes ``latency`` s.

    Rate and latency are one value for all, or one each. ``cards`` says how many ports each node
    has, in their order; left out, each port is a node's only one.
    """

    count: int
    rate: float | FloatArray
    latency: float | FloatArray
    cards: IntArray | None = None

    @cached_property
    def rates(self) -> FloatArray:
        """B/s of each port."""
        return np.broadcast_to(np.asarray(self.rate, dtype=float), self.count)

    @cached_property
    def latencies(self) -> FloatArray:
        """Seconds of each port's link."""
        return np.broadcast_to(np.asarray(self.latency, dtype=float), self.count)

    @cached_property
    def node_of(self) -> IntArray:
        """The node of each port."""
        if self.cards is None:
            return np.arange(self.count)
        return np.repeat(np.arange(len(self.cards)), self.cards)

    @cached_property
    def card_of(self) -> IntArray:
        """Each port's place among its node's: 0 for nic0."""
        if self.cards is None:
            return np.zeros(self.count, dtype=np.int64)
        first = np.cumsum(self.cards) - self.cards
        return np.arange(self.count) - first[self.node_of]
