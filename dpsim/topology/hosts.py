"""A cluster whose CPUs are route ends too, for parameter servers and averaging on the host."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.topology.cluster import Cluster
from dpsim.topology.config import ClusterConfig
from dpsim.topology.network import Network, Routes


class Hosts:
    """The cluster of ``config`` with its CPUs, and ``servers`` more nodes at its end.

    ``network`` has a route end for each GPU and, after a node's GPUs, one for its CPU.
    Capacities of the workers' nodes have the same numbers as in the cluster of GPUs alone.
    """

    def __init__(self, config: ClusterConfig, servers: int = 0) -> None:
        self.network: Cluster = config.with_hosts(servers)
        self.servers = servers

    @cached_property
    def cpus(self) -> IntArray:
        """The route end of each node's CPU, the servers' nodes last."""
        # A node's CPU comes after its GPUs, right before the next node.
        return np.asarray(self.network.first_rank[1:] - 1)

    @cached_property
    def workers(self) -> IntArray:
        """The route end of each worker's GPU."""
        nodes = self.network.nodes - self.servers  # servers' GPUs, if any, do not train
        ends = np.arange(self.network.first_rank[nodes])
        # CPUs are route ends like GPUs, but do not train.
        return np.setdiff1d(ends, self.cpus)

    @cached_property
    def node_of(self) -> IntArray:
        """Each worker's node."""
        return self.network.node_of[self.workers]


class SubNetwork(Network):
    """Some of a network's ranks as a separate network: rank i is ``ends[i]`` of ``network``."""

    def __init__(self, network: Network, ends: IntArray) -> None:
        self.network = network
        self.ends = ends

    @property
    def ranks(self) -> int:
        return len(self.ends)

    @property
    def capacities(self) -> FloatArray:
        """The capacities of the whole network."""
        return self.network.capacities

    def routes(self, source: IntArray, destination: IntArray) -> Routes:
        return self.network.routes(self.ends[source], self.ends[destination])

    def link_name(self, link: int) -> str:
        """Return a capacity's name in the whole network."""
        return self.network.link_name(link)
