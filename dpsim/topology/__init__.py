"""The network graph: inside nodes, between nodes, and routes as lists of capacities.

It uses the hardware, and does not know what is sent.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.topology.cluster import Cluster
from dpsim.topology.config import ClusterConfig, Condition, build_cluster
from dpsim.topology.fabrics import (
    HASHED,
    Ports,
    SingleSwitch,
    Spread,
)
from dpsim.topology.mesh import GroupSize, Mesh
from dpsim.topology.network import Network, Routes, UniformSwitch
from dpsim.topology.node_graph import NodeGraph

if TYPE_CHECKING:
    from dpsim.topology.detour import routes_avoiding
    from dpsim.topology.fabrics import (
        Custom,
        Dragonfly,
        DragonflyConfig,
        FatTree,
        FatTreeConfig,
        FullMesh,
        LeafSpine,
        LeafSpineConfig,
        RingConfig,
        Torus,
    )
    from dpsim.topology.host_copies import host_copy_rates, host_memory_rates
    from dpsim.topology.hosts import Hosts, SubNetwork
    from dpsim.topology.link_rings import GpuRings, Ring, gpu_rings
    from dpsim.topology.over_transport import cluster_over_transport
    from dpsim.topology.testbed import RacksConfig, TestbedConfig, goodput_fraction, in_bits
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "HASHED",
    "Cluster",
    "ClusterConfig",
    "Condition",
    "Custom",
    "Dragonfly",
    "DragonflyConfig",
    "FatTree",
    "FatTreeConfig",
    "FullMesh",
    "GpuRings",
    "GroupSize",
    "Hosts",
    "LeafSpine",
    "LeafSpineConfig",
    "Mesh",
    "Network",
    "NodeGraph",
    "Ports",
    "RacksConfig",
    "Ring",
    "RingConfig",
    "Routes",
    "SingleSwitch",
    "Spread",
    "SubNetwork",
    "TestbedConfig",
    "Torus",
    "UniformSwitch",
    "build_cluster",
    "cluster_over_transport",
    "goodput_fraction",
    "gpu_rings",
    "host_copy_rates",
    "host_memory_rates",
    "in_bits",
    "routes_avoiding",
]
