"""What joins the nodes: fabrics, one file each, with their links and routes."""

from dpsim.topology.fabrics.custom import Custom, CustomConfig, CustomEdge
from dpsim.topology.fabrics.dragonfly import Dragonfly, DragonflyConfig
from dpsim.topology.fabrics.ecmp import HASHED, Spread
from dpsim.topology.fabrics.fabric import Fabric, FabricConfig
from dpsim.topology.fabrics.fat_tree import FatTree, FatTreeConfig
from dpsim.topology.fabrics.full_mesh import FullMesh, FullMeshConfig
from dpsim.topology.fabrics.leaf_spine import LeafSpine, LeafSpineConfig
from dpsim.topology.fabrics.ports import Ports
from dpsim.topology.fabrics.rail_optimised import RailOptimisedConfig
from dpsim.topology.fabrics.shortest_paths import ShortestPaths
from dpsim.topology.fabrics.single_switch import SingleSwitch, SingleSwitchConfig
from dpsim.topology.fabrics.torus import RingConfig, Torus, TorusConfig

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
    "Ports",
    "RailOptimisedConfig",
    "RingConfig",
    "ShortestPaths",
    "SingleSwitch",
    "SingleSwitchConfig",
    "Spread",
    "Torus",
    "TorusConfig",
]
