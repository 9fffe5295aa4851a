"""Who is joined to whom: inside nodes, between nodes, and the routes from GPU to GPU as lists of capacities."""

from dpsim.topology.cluster import Cluster
from dpsim.topology.config import ClusterConfig, LeafSpineConfig, NetworkConfig, SingleSwitchConfig, build_cluster
from dpsim.topology.fabric import Fabric, LeafSpine, Ports, SingleSwitch
from dpsim.topology.network import Network, Routes, UniformSwitch
from dpsim.topology.node_graph import NodeGraph

__all__ = [
    "Cluster",
    "ClusterConfig",
    "Fabric",
    "LeafSpine",
    "LeafSpineConfig",
    "Network",
    "NetworkConfig",
    "NodeGraph",
    "Ports",
    "Routes",
    "SingleSwitch",
    "SingleSwitchConfig",
    "UniformSwitch",
    "build_cluster",
]
