"""NCCL's channels on a cluster: rings that visit the GPUs of a node in turned order.

So that each leaves nodes by another GPU and the network card next to it, as NCCL's search lays them
out on nodes with a card a GPU.
"""

from __future__ import annotations

import numpy as np

from dpsim.collectives import Rings, Schedule, ranks_array


def rotated_ring(operation: str, nodes: int, per_node: int, first: int) -> Schedule:
    """The ring through all nodes that enters each at its GPU ``first`` and goes on from there."""
    ranks = nodes * per_node
    local = (first + np.arange(per_node)) % per_node
    order = (np.arange(nodes)[:, None] * per_node + local).ravel()
    place, successor = np.empty(ranks, dtype=np.int64), np.empty(ranks, dtype=np.int64)
    place[order] = np.arange(ranks)
    successor[order] = np.roll(order, -1)
    ring = Rings(ranks_array(ranks), place, successor, ranks)
    phases = {
        "all-reduce": ring.reduce_scatter() + ring.all_gather(),
        "reduce-scatter": ring.reduce_scatter(),
        "all-gather": ring.all_gather(),
    }[operation]
    return Schedule(operation, "ring", ranks, ranks, phases)
