"""NCCL's channels on a cluster: what they carry over each link of the routes between their ranks.

A channel visits the GPUs of a node in turned order, so that each leaves nodes by another GPU and
the network card next to it, as NCCL's search lays them out on nodes with a card a GPU. All carry
equal parts of the vector. Messages between nodes keep to rails where they can, for which NCCL
alternates its rings and sends through peers (connect.cc; NCCL_CROSS_NIC, NCCL_P2P_PXN_LEVEL).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.topology import Cluster


def ring_loads(cluster: Cluster, members: IntArray, local: int, nbytes: float) -> FloatArray:
    """Bytes on each capacity when every rank sends ``nbytes`` in all to the next of its rings.

    ``members`` (collectives, ranks) holds the ranks of each, node by node, ``local`` of a node.
    """
    channels = list(rings(members, local))
    each = nbytes / len(channels)
    return sum(
        (_carried(cluster, source, destination, each) for source, destination in channels),
        start=np.zeros(len(cluster.capacities)),
    )


def rings(members: IntArray, local: int) -> Iterator[tuple[IntArray, IntArray]]:
    """Each rank and the next of its ring, in each channel.

    Every second node is crossed the other way round, so that a ring enters it by the card of the
    same place that it left the node before by. Of an odd number of nodes one way crosses rails.
    """
    for first in range(local if members.shape[1] > local else 1):
        ring = _turned(members, local, first)
        nodes = ring.reshape(len(ring), -1, local)
        nodes[:, 1::2] = nodes[:, 1::2, ::-1].copy()
        yield ring.ravel(), np.roll(ring, -1, axis=1).ravel()


def exchanges(members: IntArray, local: int) -> Iterator[tuple[IntArray, IntArray, float]]:
    """Who sends to whom in an all-to-all through peers, and how many ranks' parts each sends.

    What is for another node goes to the GPU beside the card on its receiver's rail first (PXN),
    which sends that of its whole node.
    """
    places = members.reshape(len(members), -1, local)
    nodes = places.shape[1]
    for shift in range(1, local):
        yield places.ravel(), np.roll(places, -shift, axis=2).ravel(), nodes
    for shift in range(1, nodes):
        yield places.ravel(), np.roll(places, -shift, axis=1).ravel(), local


def exchange_loads(cluster: Cluster, members: IntArray, local: int) -> FloatArray:
    """Bytes on each capacity of an all-to-all through peers, for each byte of a rank's vector."""
    part = 1.0 / members.shape[1]
    return sum(
        (
            _carried(cluster, source, destination, part * parts)
            for source, destination, parts in exchanges(members, local)
        ),
        start=np.zeros(len(cluster.capacities)),
    )


def mesh_loads(cluster: Cluster, members: IntArray, nbytes: float) -> FloatArray:
    """Bytes on each capacity when every rank sends ``nbytes`` over its own links to its neighbours.

    Of GPUs that are joined directly NCCL's rings together use all links: each carries its share of
    what a GPU sends, by its rate.
    """
    capacities = cluster.capacities
    loads = np.zeros(len(capacities))
    for ranks in members:
        source, destination = (ends.ravel() for ends in np.meshgrid(ranks, ranks, indexing="ij"))
        apart = source != destination
        source = source[apart]
        links = cluster.routes(source, destination[apart]).links
        # Of a route of one link all other hops are -1, so that the largest number is that link.
        direct = (links >= 0).sum(axis=1) == 1
        link, sender = links.max(axis=1)[direct], source[direct]
        rate = capacities[link]
        of_sender = np.bincount(sender, rate, cluster.ranks)[sender]
        loads += np.bincount(link, nbytes * rate / of_sender, len(loads))
    return loads


def tree_loads(
    cluster: Cluster, members: IntArray, local: int, nbytes: float, *, in_switch: bool
) -> FloatArray:
    """Bytes on each capacity of an all-reduce of ``nbytes`` by two trees of nodes.

    In a node a chain leads to the GPU that stands in the trees, or with ``in_switch`` its switches
    reduce: then each GPU sends and receives its vector once, about half of what a chain takes. Half
    of a channel's bytes go up and down each edge of each tree.
    """
    from dpsim.collectives import tree_edges

    loads = np.zeros(len(cluster.capacities))
    child, parent = tree_edges(members.shape[1] // local)
    inside = 0.5 if in_switch else 1.0
    for first in range(local):
        nodes = _turned(members, local, first).reshape(len(members), -1, local)
        heads = nodes[:, :, 0]
        loads += _both_ways(cluster, heads[:, child], heads[:, parent], nbytes / local / 2)
        chain = inside * nbytes / local
        loads += _both_ways(cluster, nodes[:, :, 1:], nodes[:, :, :-1], chain)
    return loads


def _turned(members: IntArray, local: int, first: int) -> IntArray:
    """The ranks of each collective, each node's from its GPU ``first`` on."""
    nodes = members.reshape(len(members), -1, local)
    return np.roll(nodes, -first, axis=2).reshape(members.shape)


def _both_ways(cluster: Cluster, a: IntArray, b: IntArray, nbytes: float) -> FloatArray:
    return _carried(cluster, a, b, nbytes) + _carried(cluster, b, a, nbytes)


def _carried(
    cluster: Cluster, source: IntArray, destination: IntArray, nbytes: float
) -> FloatArray:
    """Bytes on each capacity when each source sends ``nbytes`` to its destination."""
    crossed = np.zeros(len(cluster.capacities) + 1)  # the last is for -1, no link
    if source.size:
        links = cluster.routes(source.ravel(), destination.ravel()).links
        # Modulo the number of places, -1 is the last of them.
        crossed += np.bincount(links.ravel() % len(crossed), minlength=len(crossed))
    return nbytes * crossed[:-1]
