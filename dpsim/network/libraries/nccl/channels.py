"""NCCL's channels on a cluster: their load on each link of the routes between their ranks.

Inside a node each channel is a ring over direct links between its GPUs, or behind a switch the ring
in their order. Between nodes a ring is opened at each of its legs in turn, so that channels leave
nodes by all GPUs and the network cards next to them, as NCCL's search lays them out on nodes with
one card per GPU. If GPUs on PCIe share cards, a channel returns to the card by which it entered.
All channels carry equal parts of the vector. Messages between nodes keep to rails if possible: NCCL
alternates its rings and sends through peers (connect.cc; NCCL_CROSS_NIC, NCCL_P2P_PXN_LEVEL).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.network.libraries.nccl.cluster_machine import Joined, joined_groups
from dpsim.network.libraries.nccl.machine import PCIE
from dpsim.topology import Cluster

if TYPE_CHECKING:
    from dpsim.topology import Ring


def ring_loads(cluster: Cluster, members: IntArray, local: int, nbytes: float) -> FloatArray:
    """Return the bytes on each capacity when every rank sends ``nbytes`` along its rings.

    ``members`` (collectives, ranks) holds the ranks of each, node by node, ``local`` per node.
    """
    loads = np.zeros(len(cluster.capacities))
    for joined, rows in joined_groups(cluster, members, local):
        nodes = rows.reshape(len(rows), -1, local)
        each = nbytes / _channels(joined.rings, several=nodes.shape[1] > 1)
        sent = _sends(nodes, joined.rings, _shared_cards(cluster, joined, nodes))
        crossed = (_carried(cluster, a, b, times) for a, b, times in sent)
        loads += each * sum(crossed, start=np.zeros_like(loads))
    return loads


def rings(
    cluster: Cluster, members: IntArray, local: int
) -> Iterator[tuple[IntArray, IntArray, int]]:
    """Yield senders, receivers and the number of channels between them, for rings."""
    for joined, rows in joined_groups(cluster, members, local):
        nodes = rows.reshape(len(rows), -1, local)
        yield from _sends(nodes, joined.rings, _shared_cards(cluster, joined, nodes))


def _shared_cards(cluster: Cluster, joined: Joined, nodes: IntArray) -> IntArray | None:
    """Return the card of each place in a node, if GPUs on PCIe share cards, else None."""
    cards = cluster.card_of(nodes[0, 0])
    shared = joined.inside.kind == PCIE and len(np.unique(cards)) < len(cards)
    return cards if shared else None


def _sends(
    nodes: IntArray, rings: Sequence[Ring], cards: IntArray | None
) -> Iterator[tuple[IntArray, IntArray, int]]:
    """Yield what `rings` does; ``nodes`` is (collectives, nodes, GPUs).

    Every second node is crossed in the other direction, so that a ring enters it by the card at the
    same place as the one by which it left the previous node. With an odd number of nodes one path
    crosses rails.
    """
    several = nodes.shape[1] > 1
    even, odd = nodes[:, ::2], nodes[:, 1::2]
    for a, b, channels in _batches(_hops(rings, cards, several=several)):
        yield _ends(even, a, odd, b), _ends(even, b, odd, a), channels
    if not several:
        return
    # A channel opens at each leg of a ring.
    opened = Counter((leg[0], leg[-1]) for ring in rings for leg in ring)
    for last, first, channels in _batches(opened):
        leaves, enters = nodes[:, :, last], nodes[:, :, first]
        leaves[:, 1::2], enters[:, 1::2] = odd[:, :, first], odd[:, :, last]
        yield leaves.ravel(), np.roll(enters, -1, axis=1).ravel(), channels


def _batches(found: Mapping[tuple[int, int], int]) -> Iterator[tuple[IntArray, IntArray, int]]:
    """Yield pairs of places by their channels, with all pairs from one place together."""
    reached: dict[tuple[int, int], list[int]] = defaultdict(list)
    for (a, b), channels in found.items():
        reached[a, channels].append(b)
    for (a, channels), others in reached.items():
        yield np.full(len(others), a), np.array(others), channels


def _channels(rings: Sequence[Ring], *, several: bool) -> int:
    """Return the number of channels; with ``several`` nodes, one per leg at which a ring opens."""
    return len(rings) * (len(rings[0]) if several else 1)


def _hops(
    rings: Sequence[Ring], cards: IntArray | None = None, *, several: bool
) -> Mapping[tuple[int, int], int]:
    """Return in how many channels one place of a node sends to another."""
    found: Counter[tuple[int, int]] = Counter()
    for ring in rings:
        for leg in ring:
            # All channels of a ring cross this leg, except the one that opens at it. If the leg
            # joins two shared cards, that one crosses it too, on its way back.
            back = cards is not None and cards[leg[0]] != cards[leg[-1]]
            found.update(dict.fromkeys(pairwise(leg), len(ring) - (not back) if several else 1))
    return found


def _ends(even: IntArray, places: IntArray, odd: IntArray, others: IntArray) -> IntArray:
    """Return the ranks at ``places`` of every first node, and at ``others`` of every second one."""
    return np.concatenate([even[:, :, places].ravel(), odd[:, :, others].ravel()])


def exchanges(members: IntArray, local: int) -> Iterator[tuple[IntArray, IntArray, float]]:
    """Yield senders and receivers in an all-to-all through peers, and the ranks' parts sent.

    Data for another node first goes to the GPU beside the card on its receiver's rail (PXN), which
    sends it for its whole node.
    """
    places = members.reshape(len(members), -1, local)
    nodes = places.shape[1]
    for shift in range(1, local):
        yield places.ravel(), np.roll(places, -shift, axis=2).ravel(), nodes
    for shift in range(1, nodes):
        yield places.ravel(), np.roll(places, -shift, axis=1).ravel(), local


def exchange_loads(cluster: Cluster, members: IntArray, local: int) -> FloatArray:
    """Return the bytes on each capacity of an all-to-all, per byte of a rank's vector."""
    part = 1.0 / members.shape[1]
    return sum(
        (
            _carried(cluster, source, destination, part * parts)
            for source, destination, parts in exchanges(members, local)
        ),
        start=np.zeros(len(cluster.capacities)),
    )


def tree_loads(
    cluster: Cluster, members: IntArray, local: int, nbytes: float, *, in_switch: bool
) -> FloatArray:
    """Return the bytes on each capacity of an all-reduce of ``nbytes`` by two trees of nodes.

    In a node a chain leads to the GPU that is in the trees, or with ``in_switch`` its switches
    reduce: then each GPU sends and receives its vector once, about half the bytes of a chain. Half
    of a channel's bytes go up and down each edge of each tree.
    """
    from dpsim.collectives import tree_edges

    loads = np.zeros(len(cluster.capacities))
    child, parent = tree_edges(members.shape[1] // local)
    inside = 0.5 if in_switch else 1.0
    for joined, rows in joined_groups(cluster, members, local):
        nodes = rows.reshape(len(rows), -1, local)
        each = nbytes / _channels(joined.rings, several=True)
        for head, channels in Counter(leg[-1] for ring in joined.rings for leg in ring).items():
            heads = nodes[:, :, head]
            loads += _both_ways(cluster, heads[:, child], heads[:, parent], channels * each / 2)
        for a, b, channels in _batches(_hops(joined.rings, several=True)):
            chain = inside * channels * each
            loads += _both_ways(cluster, nodes[:, :, a], nodes[:, :, b], chain)
    return loads


def _both_ways(cluster: Cluster, a: IntArray, b: IntArray, nbytes: float) -> FloatArray:
    return _carried(cluster, a, b, nbytes) + _carried(cluster, b, a, nbytes)


def _carried(
    cluster: Cluster, source: IntArray, destination: IntArray, nbytes: float
) -> FloatArray:
    """Return the bytes on each capacity when each source sends ``nbytes`` to its destination."""
    crossed = np.zeros(len(cluster.capacities) + 1)  # the last is for -1, no link
    if source.size:
        links = cluster.routes(source.ravel(), destination.ravel()).links
        # The modulo maps -1 to the last place.
        crossed += np.bincount(links.ravel() % len(crossed), minlength=len(crossed))
    return nbytes * crossed[:-1]
