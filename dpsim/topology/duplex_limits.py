"""Joint limits of the two directions of a network card's link.

A card, its bus and the protocol serve both directions: acknowledgements, interrupts and memory are
shared. While both directions carry data, each keeps the share d of its rate (1: full duplex; 0.5:
they take turns), so together they carry at most d times the sum of their rates; a single direction
has its full rate. The limit is an extra capacity that routes over either direction cross.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.topology.fabrics import Fabric


class DuplexLimits:
    """One capacity for each link of ``fabric`` that ends at a port.

    It is ``duplex`` times the sum of the rates of the link's two directions.
    """

    def __init__(self, fabric: Fabric, duplex: float) -> None:
        self.fabric = fabric
        self.duplex = duplex

    @cached_property
    def links(self) -> dict[tuple[str, str], list[int]]:
        """The ends of each such link, and the numbers of its directions."""
        found: dict[tuple[str, str], list[int]] = {}
        for number in range(len(self.fabric.capacities)):
            ends = self.fabric.link(number)
            if not any(end.startswith("port") for end in ends):
                continue
            # Both directions use the ends of the first one as their key.
            back = ends[::-1]
            found.setdefault(back if back in found else ends, []).append(number)
        return found

    @cached_property
    def capacities(self) -> FloatArray:
        """The B/s of each limit."""
        sums = [self.fabric.capacities[numbers].sum() for numbers in self.links.values()]
        return self.duplex * np.array(sums)

    def crossed(self, links: IntArray) -> IntArray:
        """Return the limit of each of the fabric's ``links``, in the same shape; -1 for none."""
        return self._limit_of[links]

    @cached_property
    def _limit_of(self) -> IntArray:
        limit_of = np.full(len(self.fabric.capacities) + 1, -1)  # the last is for -1, no link
        for limit, numbers in enumerate(self.links.values()):
            limit_of[numbers] = limit
        return limit_of

    @cached_property
    def ends(self) -> tuple[tuple[str, str], ...]:
        """The two ends of each limit's link."""
        return tuple(self.links)
