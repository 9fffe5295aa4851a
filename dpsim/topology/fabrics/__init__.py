"""Fabrics that join the nodes, one file each, with their links and routes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

from dpsim.base.kinds import Kinds
from dpsim.base.lazy import on_demand
from dpsim.topology.fabrics.ecmp import HASHED, Spread
from dpsim.topology.fabrics.fabric import Fabric, FabricConfig, Ports
from dpsim.topology.fabrics.single_switch import SingleSwitch, SingleSwitchConfig

if TYPE_CHECKING:
    from dpsim.topology.fabrics.custom import Custom, CustomConfig
    from dpsim.topology.fabrics.dragonfly import Dragonfly, DragonflyConfig
    from dpsim.topology.fabrics.edge import CustomEdge
    from dpsim.topology.fabrics.fat_tree import FatTree, FatTreeConfig
    from dpsim.topology.fabrics.full_mesh import FullMesh, FullMeshConfig
    from dpsim.topology.fabrics.leaf_spine import LeafSpine, LeafSpineConfig
    from dpsim.topology.fabrics.rail_optimised import RailOptimisedConfig
    from dpsim.topology.fabrics.torus import RingConfig, Torus, TorusConfig

    NetworkConfig = FabricConfig
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)
    # As they are listed; a new one is found by the name of its file.
    _ORDER = (
        "single-switch",
        "leaf-spine",
        "fat-tree",
        "rail-optimised",
        "torus",
        "ring",
        "full-mesh",
        "dragonfly",
        "custom",
    )
    _KINDS = Kinds("fabric", __name__, _ORDER, elsewhere={"ring": "torus"})
    NetworkConfig = Annotated[object, _KINDS]

__all__ = [
    "HASHED",
    "Custom",
    "CustomConfig",
    "CustomEdge",
    "Dragonfly",
    "DragonflyConfig",
    "Fabric",
    "FabricConfig",
    "FatTree",
    "FatTreeConfig",
    "FullMesh",
    "FullMeshConfig",
    "LeafSpine",
    "LeafSpineConfig",
    "NetworkConfig",
    "Ports",
    "RailOptimisedConfig",
    "RingConfig",
    "SingleSwitch",
    "SingleSwitchConfig",
    "Spread",
    "Torus",
    "TorusConfig",
]
