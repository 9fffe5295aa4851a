"""Rates at which samples are copied from the CPU's memory to each GPU of a node."""

from __future__ import annotations

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.topology.cluster import Cluster
from dpsim.topology.node_graph import NodeGraph


def host_copy_rates(cluster: Cluster) -> FloatArray:
    """Return the B/s of copies to each rank's GPU when all GPUs of its node copy at once.

    The shape is (ranks,). Each GPU's route starts at the nearest CPU (at the nearest slot of a
    network card, if a node has no CPUs); routes share links evenly.
    """
    kinds = [_rates(kind) for kind in cluster.kinds]
    return np.concatenate([kinds[kind] for kind in cluster.kind_of])


def host_memory_rates(cluster: Cluster) -> FloatArray:
    """Return each rank's equal share of its node's memory rate in B/s; 0 if unknown.

    The shape is (ranks,). Rates are nominal, for reads and writes together.
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
    # All GPUs copy at the same time, so a link's rate is divided among its users.
    users = np.bincount(every_link, minlength=len(kind.capacities))
    shares = kind.capacities / np.maximum(users, 1)
    return np.array([shares[links].min(initial=np.inf) for links in crossed])
