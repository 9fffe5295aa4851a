"""Every port linked to every other, without switches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
from pydantic import Field

from dpsim.base.arrays import IntArray
from dpsim.topology.fabrics.fabric import Fabric, FabricConfig, Ports

_MOST_PORTS = 2048  # links grow with the square


class FullMesh(Fabric):
    """A link of a port's full rate from each port to each other port.

    Capacity a (n - 1) + b is the link from port a to the b-th of the others.
    """

    def __init__(self, ports: Ports) -> None:
        out = ~np.eye(ports.count, dtype=bool)
        super().__init__(
            ports,
            # In the order of links: row by row without the diagonal. The slower end limits a link.
            np.minimum.outer(ports.rates, ports.rates)[out],
            np.maximum.outer(ports.latencies, ports.latencies)[out],
        )

    def paths(self, source: IntArray, destination: IntArray) -> IntArray:
        """Return the single link of each pair."""
        others = self.ports.count - 1
        # The other ports are numbered without the source.
        return (source * others + destination - (destination > source))[:, None]

    def link(self, number: int) -> tuple[str, str]:
        """Return the two ports."""
        source, other = divmod(number, self.ports.count - 1)
        return f"port{source}", f"port{other + (other >= source)}"


class FullMeshConfig(FabricConfig):
    """Every pair of network cards joined by a link."""

    fabric: Literal["full-mesh"] = Field(
        description="Every pair of network cards joined by a link of the full rate."
    )

    def check(self, cards: Sequence[int]) -> None:
        """Raise ValueError if there would be too many links."""
        if sum(cards) > _MOST_PORTS:
            raise ValueError(
                f"a full mesh must have at most {_MOST_PORTS:,} network cards, but got "
                f"{sum(cards):,}"
            )

    def fabric_of(self, ports: Ports) -> Fabric:
        """Return a fabric with a link for each pair."""
        return FullMesh(ports)
