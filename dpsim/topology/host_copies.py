"""How fast samples are copied from the CPU's memory to each GPU of a node."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.topology.cluster import Cluster
from dpsim.topology.node_graph import NodeGraph


def host_copy_rates(cluster: Cluster) -> FloatArray:
    """B/s at which each rank's GPU is copied to, when all GPUs of its node are at once.

    The shape is (ranks,). Each GPU's route is that from the nearest CPU (from the nearest slot of a
    network card, where a node has no CPUs); links that several routes take are divided evenly.
    """
    kinds = [_rates(kind) for kind in cluster.kinds]
    return np.concatenate([kinds[kind] for kind in cluster.kind_of])


def host_memory_rates(cluster: Cluster) -> FloatArray:
    """B/s that each rank's GPU has of its node's memory, shared evenly; 0 where it is not known.

    The shape is (ranks,). Rates are nominal, of reads and writes together.
    """
    kinds = [_memory_rate(kind) for kind in cluster.kinds]
    return np.array([kinds[cluster.kind_of[node]] for node in cluster.node_of])


def _memory_rate(kind: NodeGraph) -> float:
    devices = kind.node.device_names()
    cpus = [device for device in devices if kind.devices[device]["kind"] == "cpu"]
    return sum(kind.node.capacity(cpu) or 0.0 for cpu in cpus) / len(kind.gpus)


def _rates(kind: NodeGraph) -> FloatArray:
    devices = kind.node.device_names()
    cpus = [device for device in devices if kind.devices[device]["kind"] == "cpu"]
    sources = cpus or list(kind.node.nic_slots)
    crossed = []
    for gpu in kind.gpus:
        routes = [kind.path(source, gpu) for source in sources]
        nearest = min(routes, key=kind.path_seconds)
        crossed.append(kind.path_links(nearest))

    every_link = [link for links in crossed for link in links]
    # Copies to all GPUs run at once, each step: a link's rate is divided among those that cross it.
    users = np.bincount(every_link, minlength=len(kind.capacities))
    shares = kind.capacities / np.maximum(users, 1)
    return np.array([shares[links].min(initial=np.inf) for links in crossed])
