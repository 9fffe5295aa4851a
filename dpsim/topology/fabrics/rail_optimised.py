"""Rails: card r of every node is on switch r, so GPUs of equal local rank share a switch."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, PositiveInt

from dpsim.topology.fabrics.fabric import Fabric, Ports, TieredConfig
from dpsim.topology.fabrics.leaf_spine import LeafSpine


class RailOptimisedConfig(TieredConfig):
    """Rail r joins network card r of all nodes; spines join the rails."""

    fabric: Literal["rail-optimised"] = Field(
        description="Network card r of all nodes on rail r, rails joined by spines."
    )
    nodes_per_rail: PositiveInt | None = Field(
        default=None,
        description="Nodes per rail switch; more nodes use more sets of rails. All if left out.",
    )
    spines: PositiveInt = Field(
        default=4, description="Spine switches; each rail has a link to each."
    )
    oversubscription: float = Field(
        default=1.0,
        ge=1,
        description="Oversubscription: a rail's rate to its nodes over its rate to the spines.",
    )

    def fabric_of(self, ports: Ports) -> Fabric:
        """Return a leaf-spine fabric whose leaves are the rails, numbered set by set."""
        # Nodes with fewer cards are only on the first rails.
        rails = int(ports.card_of.max()) + 1
        sets = 0 if self.nodes_per_rail is None else ports.node_of // self.nodes_per_rail
        return LeafSpine(
            ports,
            sets * rails + ports.card_of,
            spines=self.spines,
            oversubscription=self.oversubscription,
            switch_latency=self.switch_latency,
            spread=self.spread,
            leaf_name="rail",
        )
