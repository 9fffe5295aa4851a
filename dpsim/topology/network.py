"""What a network is to those who time transfers: capacities, and routes as lists of capacities."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class Routes:
    """Where transfers go: ``links`` (transfers, hops) are capacity numbers, -1 where a route is shorter; ``latency`` in s."""

    links: IntArray
    latency: FloatArray


class Network(Protocol):
    """Ranks joined by capacities (links, and devices with a limit of their own), in bytes per second."""

    @property
    def ranks(self) -> int:
        """How many ranks it joins."""

    @property
    def capacities(self) -> FloatArray:
        """Bytes per second of each capacity."""

    def routes(self, source: IntArray, destination: IntArray) -> Routes:
        """The route of each pair of ranks; both arrays have one entry a transfer."""

    def link_name(self, link: int) -> str:
        """What people call a capacity, such as ``node3/gpu0->pcie-switch0``."""


@dataclass(frozen=True, slots=True)
class UniformSwitch:
    """Ranks on one non-blocking full-duplex switch: ``rate`` B/s out of and into each, ``latency`` s between any two.

    Capacity i is the link out of rank i, capacity ``ranks + i`` the link into it.
    """

    ranks: int
    rate: float
    latency: float

    @property
    def capacities(self) -> FloatArray:
        """The same rate on every link."""
        return np.full(2 * self.ranks, self.rate)

    def routes(self, source: IntArray, destination: IntArray) -> Routes:
        """Out of the source, into the destination."""
        return Routes(np.stack([source, self.ranks + destination], axis=1), np.full(len(source), self.latency))

    def link_name(self, link: int) -> str:
        """``rank5->switch`` or ``switch->rank5``."""
        return f"rank{link}->switch" if link < self.ranks else f"switch->rank{link - self.ranks}"
