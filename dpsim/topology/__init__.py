"""Who is joined to whom: inside nodes, between nodes, and the routes from GPU to GPU as lists of capacities."""

from dpsim.topology.cluster import Cluster
from dpsim.topology.config import ClusterConfig, NetworkConfig, NodeGroup, build_cluster
from dpsim.topology.custom import Custom, CustomConfig, CustomEdge
from dpsim.topology.detour import routes_avoiding
from dpsim.topology.dragonfly import Dragonfly, DragonflyConfig
from dpsim.topology.ecmp import HASHED, Spread
from dpsim.topology.fabric import Fabric, FabricConfig
from dpsim.topology.fat_tree import FatTree, FatTreeConfig
from dpsim.topology.full_mesh import FullMesh, FullMeshConfig
from dpsim.topology.host_copies import host_copy_rates
from dpsim.topology.hosts import Among, Hosts
from dpsim.topology.leaf_spine import LeafSpine, LeafSpineConfig
from dpsim.topology.network import Network, Routes, UniformSwitch
from dpsim.topology.node_graph import NodeGraph
from dpsim.topology.ports import Ports
from dpsim.topology.rail_optimised import RailOptimisedConfig
from dpsim.topology.shortest import ShortestPaths
from dpsim.topology.single_switch import SingleSwitch, SingleSwitchConfig
from dpsim.topology.testbed import RacksConfig, TestbedConfig, goodput_fraction
from dpsim.topology.torus import RingConfig, Torus, TorusConfig
from dpsim.topology.transported import transported

__all__ = [
    "HASHED",
    "Among",
    "Cluster",
    "ClusterConfig",
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
    "Hosts",
    "LeafSpine",
    "LeafSpineConfig",
    "Network",
    "NetworkConfig",
    "NodeGraph",
    "NodeGroup",
    "Ports",
    "RacksConfig",
    "RailOptimisedConfig",
    "RingConfig",
    "Routes",
    "ShortestPaths",
    "SingleSwitch",
    "SingleSwitchConfig",
    "Spread",
    "TestbedConfig",
    "Torus",
    "TorusConfig",
    "UniformSwitch",
    "build_cluster",
    "goodput_fraction",
    "host_copy_rates",
    "routes_avoiding",
    "transported",
]
