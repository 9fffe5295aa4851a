"""How fast samples are copied from the CPU's memory to each GPU of a node."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.topology.cluster import Cluster
from dpsim.topology.node_graph import NodeGraph


def host_copy_rates(cluster: Cluster) -> FloatArray:
    """B/s at which each rank's GPU is copied to, shape (ranks,), when all GPUs of its node are
    copied to at once.

    Each GPU's route is that from the nearest CPU (from the nearest slot of a network card, where a
    node has no CPUs); links that several routes take are divided evenly.
    """
    kinds = [_rates(kind) for kind in cluster.kinds]
    return np.concatenate([kinds[kind] for kind in cluster.kind_of])


def _rates(kind: NodeGraph) -> FloatArray:
    sources = [
        device for device in kind.node.device_names() if kind.graph.nodes[device]["kind"] == "cpu"
    ]
    sources = sources or list(kind.node.nic_slots)
    routes = [
        min((kind.path(source, gpu) for source in sources), key=lambda path: _length(kind, path))
        for gpu in kind.gpus
    ]
    links = [[kind.graph.edges[hop]["number"] for hop in pairwise(route)] for route in routes]
    links = [
        own + [kind.graph.nodes[d]["number"] for d in route if "number" in kind.graph.nodes[d]]
        for own, route in zip(links, routes, strict=True)
    ]
    users = np.bincount([link for own in links for link in own], minlength=len(kind.capacities))
    shares = kind.capacities / np.maximum(users, 1)
    return np.array([shares[own].min(initial=np.inf) for own in links])


def _length(kind: NodeGraph, path: list[str]) -> float:
    return float(sum(kind.graph.edges[hop]["weight"] for hop in pairwise(path)))
