"""Ports on leaf switches, leaves joined by spines."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field, PositiveInt

from dpsim.base.arrays import IntArray
from dpsim.topology.fabrics.ecmp import HASHED, Spread
from dpsim.topology.fabrics.fabric import Fabric, Ports, Switched, TieredConfig


class LeafSpine(Switched):
    """Ports on leaf switches, port p on leaf ``leaf_of[p]``; every leaf is linked to every spine.

    The uplinks of the leaf with the fastest ports have their total rate divided by
    ``oversubscription``, in equal parts; all leaves have the same uplinks. Capacities: out of the
    ports, into the ports, leaf by leaf up to each spine, leaf by leaf down from each spine.
    """

    def __init__(
        self,
        ports: Ports,
        leaf_of: IntArray,
        *,
        spines: int,
        oversubscription: float = 1.0,
        switch_latency: float = 0.0,
        spread: Spread = HASHED,
        leaf_name: str = "leaf",
    ) -> None:
        self.leaf_of = leaf_of
        self.leaves = int(leaf_of.max()) + 1
        self.spines = spines
        self.spread = spread
        self._leaf_name = leaf_name
        # All switches are equal, so all leaves have the uplinks that the fastest one needs.
        fastest_leaf = np.bincount(leaf_of, ports.rates).max()
        between = 2 * self.leaves * spines
        uplink = fastest_leaf / oversubscription / spines
        super().__init__(ports, np.full(between, uplink), np.full(between, switch_latency))

    def paths(self, source: IntArray, destination: IntArray) -> IntArray:
        """Return the path through one leaf, or through leaf, spine and leaf."""
        first_leaf, last_leaf = self.leaf_of[source], self.leaf_of[destination]
        spine = self.spread.choose(source, destination, self.spines)
        first = 2 * self.ports.count
        up = first + first_leaf * self.spines + spine
        # The links down are numbered after all links up; both use the same spine.
        down = first + (self.leaves + last_leaf) * self.spines + spine
        apart = first_leaf != last_leaf
        hops = [
            source,
            np.where(apart, up, -1),
            np.where(apart, down, -1),
            self.ports.count + destination,
        ]
        return np.stack(hops, axis=1)

    def switch_of(self, port: int) -> str:
        """Return its leaf."""
        return f"{self._leaf_name}{self.leaf_of[port]}"

    def trunk(self, number: int) -> tuple[str, str]:
        """Return leaf and spine, or spine and leaf."""
        leaf, spine = divmod(number, self.spines)
        ends = (f"{self._leaf_name}{leaf % self.leaves}", f"spine{spine}")
        return ends if leaf < self.leaves else ends[::-1]


class LeafSpineConfig(TieredConfig):
    """Nodes on leaf switches that are joined by spines."""

    fabric: Literal["leaf-spine"] = Field(
        description="Nodes on leaf switches, leaves joined by spines."
    )
    nodes_per_leaf: PositiveInt = Field(default=16, description="Nodes on each leaf switch.")
    spines: PositiveInt = Field(
        default=4, description="Spine switches; each leaf has a link to each."
    )
    oversubscription: float = Field(
        default=1.0,
        ge=1,
        description="Oversubscription: a leaf's rate to its nodes over its rate to the spines.",
    )

    def fabric_of(self, ports: Ports) -> Fabric:
        """Return leaves of ``nodes_per_leaf`` nodes each."""
        return LeafSpine(
            ports,
            ports.node_of // self.nodes_per_leaf,
            spines=self.spines,
            oversubscription=self.oversubscription,
            switch_latency=self.switch_latency,
            spread=self.spread,
        )
