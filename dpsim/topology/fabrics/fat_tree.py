"""The k-ary fat tree of three levels: non-blocking, from equal switches of k ports."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import Field

from dpsim.base.arrays import IntArray
from dpsim.topology.fabrics.ecmp import HASHED, Spread
from dpsim.topology.fabrics.fabric import Fabric, Ports, Switched, TieredConfig


class FatTree(Switched):
    """k pods of k/2 edge and k/2 aggregation switches, under (k/2)^2 core switches.

    There is room for k^3/4 ports, filled in order. Aggregation switch a of every pod is joined to
    cores a k/2 to (a + 1) k/2 - 1. Links between switches have the fastest port's rate. Capacities:
    out of the ports, into them, edge to aggregation, aggregation to core, and both in the same
    order downwards. Source: Al-Fares, Loukissas and Vahdat, A Scalable, Commodity Data Center
    Network Architecture, SIGCOMM 2008.
    """

    def __init__(
        self, ports: Ports, k: int, *, switch_latency: float = 0.0, spread: Spread = HASHED
    ) -> None:
        assert k % 2 == 0
        assert ports.count <= k**3 // 4
        self.k = k
        self.half = k // 2
        self.spread = spread
        self._level = k * self.half**2  # links between two levels
        between = 4 * self._level
        fastest = ports.rates.max()
        super().__init__(ports, np.full(between, fastest), np.full(between, switch_latency))

    def paths(self, source: IntArray, destination: IntArray) -> IntArray:
        """Return the path through the edge switch, the pod, or a core switch."""
        half, level = self.half, self._level
        first_edge, last_edge = source // half, destination // half
        first_pod, last_pod = first_edge // half, last_edge // half
        aggregation = self.spread.choose(source, destination, half)
        core = self.spread.choose(source, destination, half, level=1)

        # There is a choice at each level upwards, and one path downwards.
        first = 2 * self.ports.count
        up = first + first_edge * half + aggregation
        over = first + level + (first_pod * half + aggregation) * half + core
        # A core joins the aggregation switches with the same index in all pods.
        down = first + 2 * level + last_edge * half + aggregation
        back = first + 3 * level + (last_pod * half + aggregation) * half + core

        edges = first_edge != last_edge
        pods = first_pod != last_pod
        hops = [
            source,
            np.where(edges, up, -1),
            np.where(pods, over, -1),
            np.where(pods, back, -1),
            np.where(edges, down, -1),
            self.ports.count + destination,
        ]
        return np.stack(hops, axis=1)

    def switch_of(self, port: int) -> str:
        """Return its edge switch."""
        return f"edge{port // self.half}"

    def trunk(self, number: int) -> tuple[str, str]:
        """Return edge and aggregation switch, or aggregation and core switch."""
        # Levels 0 and 1 are upwards, 2 and 3 the same links downwards.
        level, place = divmod(number, self._level)
        lower, upper = divmod(place, self.half)
        if level % 2 == 0:
            pod = lower // self.half
            ends = (f"edge{lower}", f"aggregation{pod * self.half + upper}")
        else:
            position = lower % self.half  # of the aggregation switch in its pod
            ends = (f"aggregation{lower}", f"core{position * self.half + upper}")
        return ends if level < 2 else ends[::-1]


class FatTreeConfig(TieredConfig):
    """A k-ary fat tree of three levels."""

    fabric: Literal["fat-tree"] = Field(
        description="A non-blocking tree of edge, aggregation and core switches of k ports."
    )
    k: Annotated[int, Field(ge=2, le=512, multiple_of=2)] | None = Field(
        default=None,
        description="Ports per switch, even, for k^3/4 network cards; the smallest if left out.",
    )

    def check(self, cards: Sequence[int]) -> None:
        """Raise ValueError if there is no room for all cards."""
        if self.k is not None and sum(cards) > self.k**3 // 4:
            raise ValueError(
                f"k must be at least {least_k(sum(cards))} for {sum(cards):,} network cards (room "
                f"for k^3/4), but got {self.k}"
            )

    def fabric_of(self, ports: Ports) -> Fabric:
        """Return the fat tree of ``k``, or the smallest one with room for all ports."""
        return FatTree(
            ports,
            self.k or least_k(ports.count),
            switch_latency=self.switch_latency,
            spread=self.spread,
        )


def least_k(ports: int) -> int:
    """Return the smallest even k with k^3/4 >= ``ports``."""
    k = 2
    while k**3 // 4 < ports:
        k += 2
    return k
