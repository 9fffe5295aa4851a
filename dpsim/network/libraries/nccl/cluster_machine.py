"""Describe a cluster for NCCL's model, from the catalogue's entries."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.base.errors import DpsimError
from dpsim.collectives import RankLayout
from dpsim.hardware import Gpu, Link, pcie_rate
from dpsim.network.libraries.nccl.gpus import capability_of, direct_rings, is_amd
from dpsim.network.libraries.nccl.machine import (
    NVMESH,
    NVSWITCH,
    PCIE,
    XGMI,
    Bus,
    IntraNode,
    NcclMachine,
)
from dpsim.network.libraries.nccl.network_text import transport_of
from dpsim.topology import Cluster, NodeGraph

if TYPE_CHECKING:
    from dpsim.collectives import Groups
    from dpsim.topology import Ring


def machine_of(cluster: Cluster, groups: Groups | None = None) -> NcclMachine:
    """Return the machine of ``cluster`` for NCCL; if nodes differ, the slowest one.

    With ``groups``, return the machine of each group, with the cards next to its own GPUs. NCCL
    does not know of other groups' traffic over these. Raises DpsimError for accelerators that NCCL
    does not support, and for uneven nodes or groups.
    """
    per_node = gpus_per_node(cluster)
    local, nodes = per_node, cluster.nodes
    if groups is not None:
        among = groups.among(RankLayout(cluster.ranks, per_node))
        local = among.groups_of("library nccl in groups")
        nodes = among.ranks // local
    capability, _, name = min(
        # The oldest generation sets the pace; the number selects the first of equal ones.
        (_served_capability(kind.node.gpu), number, kind.node.gpu.name)
        for number, kind in enumerate(cluster.kinds)
    )
    members = np.arange(cluster.ranks)[None] if groups is None else groups.members(cluster.ranks)
    interconnects = (found.inside for found, _ in joined_groups(cluster, members, local))
    inside = min(interconnects, key=lambda found: found.rate)
    cards = Cards(0.0, 0.0, "none")
    if nodes > 1:
        cards = min(network_cards(kind) for kind in cluster.kinds)
    share = 1.0 if groups is None or nodes == 1 else _own_cards(cluster, groups)
    return NcclMachine(
        gpu=name,
        capability=capability,
        intra=inside.kind,
        intra_rate=inside.rate,
        bus=inside.bus,
        latest_pcie=inside.latest_pcie,
        multicast=all(kind.node.in_network_reduction for kind in cluster.kinds),
        nodes=nodes,
        gpus_per_node=local,
        transport=cards.transport,
        nic_rate=cards.rate * share,
    )


@dataclass(frozen=True, slots=True)
class Joined:
    """The interconnect of some GPUs of a node, and the rings over them by which NCCL uses it."""

    inside: IntraNode
    rings: tuple[Ring, ...]


def joined_groups(cluster: Cluster, members: IntArray, local: int) -> list[tuple[Joined, IntArray]]:
    """Return the interconnects of GPUs within nodes, each with its rows of ``members``.

    ``members`` (collectives, ranks) holds the ranks of each, node by node, ``local`` per node. If
    nodes differ, the slowest counts for all.
    """
    places, kind_of_row = np.unique(
        cluster.local_of[members[:, :local]], axis=0, return_inverse=True
    )
    found = []
    for number, here in enumerate(places.tolist()):
        of_kinds = (_join(kind, here) for kind in cluster.kinds)
        slowest = min(of_kinds, key=lambda joined: joined.inside.rate)
        found.append((slowest, members[kind_of_row.ravel() == number]))
    return found


def gpus_per_node(cluster: Cluster) -> int:
    """Return the number of GPUs of each node. Raises DpsimError if nodes differ in it."""
    if cluster.per_node is None:
        numbers = sorted({len(kind.gpus) for kind in cluster.kinds})
        raise DpsimError(
            f"cluster.groups: must have equal numbers of GPUs per node here, but got {numbers}"
        )
    return cluster.per_node


def _served_capability(gpu: Gpu) -> int:
    """Return the capability by which NCCL chooses constants; raises DpsimError if not supported."""
    if gpu.capability is not None:
        return gpu.capability
    if not is_amd(gpu):
        raise DpsimError(f"library nccl must have GPUs of NVIDIA or AMD, but got {gpu.name!r}")
    return capability_of(gpu)


def _own_cards(cluster: Cluster, groups: Groups) -> float:
    """Return the smallest share of a node's cards that is next to a group's GPUs."""
    members = groups.members(cluster.ranks)
    node = np.arange(gpus_per_node(cluster))
    here = [np.intersect1d(ranks, node) for ranks in members if (ranks < len(node)).any()]
    counts = [len(np.unique(cluster.card_of(ranks))) for ranks in here]
    return min(counts) / len(np.unique(cluster.card_of(node)))


def _join(kind: NodeGraph, places: Sequence[int]) -> Joined:
    """Return the interconnect of the GPUs with these local ranks.

    A single GPU is described by the links that join all GPUs of its node; a node's only GPU, by
    PCIe.
    """
    gpus = [kind.gpus[place] for place in places]
    among = gpus if len(gpus) > 1 else [f"gpu{number}" for number in range(kind.node.gpus)]
    in_order = tuple((place, (place + 1) % len(gpus)) for place in range(len(gpus)))
    if len(among) == 1:
        return Joined(
            IntraNode(PCIE, pcie_rate(3), Bus(not kind.node.gpu.peer_access)), (in_order,)
        )
    links = [edge for edge in kind.edges if among[0] in edge[:2]]
    nvlinks = [edge for edge in links if "nvlink" in edge[2].name]
    to_switches = [link.rate.value * count for a, b, link, count in nvlinks if "switch" in a + b]
    if to_switches:
        return Joined(IntraNode(NVSWITCH, sum(to_switches)), (in_order,))
    mesh = direct_rings(kind.node.gpu, among, kind.edges)
    if mesh.rings:
        family = XGMI if is_amd(kind.node.gpu) else NVMESH
        return Joined(IntraNode(family, mesh.rate), mesh.rings if among is gpus else (in_order,))
    all_links = [link for _, _, link, _ in links]
    others = [link for link in all_links if "nvlink" not in link.name]
    # An AMD GPU that replaces another in a node may have only NVIDIA's links.
    slowest = min(others or all_links, key=lambda link: link.rate.value)
    bus = _bus(kind, among)
    # Over bridged pairs, two opposite rings use one direction of each link.
    backwards = tuple(leg[::-1] for leg in reversed(in_order))
    rings = (in_order, backwards) if bus.one_way else (in_order,)
    return Joined(IntraNode(PCIE, slowest.rate.value, bus, _latest_pcie(slowest)), rings)


def _latest_pcie(link: Link) -> int:
    """Return the PCIe generation in a link's name: twice the rate of PCIe 4 is not yet PCIe 5."""
    called = re.match(r"pcie(\d)-", link.name)
    return int(called[1]) if called else 6


def _bus(kind: NodeGraph, gpus: Sequence[str]) -> Bus:
    """Return how a ring crosses PCIe: peer to peer under one socket, staged across sockets.

    If only hops between sockets are staged, one GPU of each socket uses an uplink. Bridged pairs of
    ``gpus`` are assumed to reach one another directly, as in `bus_text`.
    """
    peers = {gpu: _path_to_cpu(gpu, kind.edges) for gpu in kind.gpus}
    sockets = {path[-1] for path in peers.values()}
    if not kind.node.gpu.peer_access:
        uplinks = Counter(path[-2:] for path in peers.values())
        return Bus(staged=True, per_uplink=max(uplinks.values()))
    bridges = [edge for edge in kind.edges if "nvlink" in edge[2].name and {*edge[:2]} <= {*gpus}]
    if all(any(gpu in edge[:2] for edge in bridges) for gpu in gpus):
        return Bus(sockets=len(sockets) > 1, one_way=True)
    return Bus(staged=len(sockets) > 1)


def _path_to_cpu(gpu: str, edges: Sequence[tuple[str, str, Link, int]]) -> tuple[str, ...]:
    """Return the devices from a GPU to the nearest CPU, both included, or as far as links lead."""
    paths: list[tuple[str, ...]] = [(gpu,)]
    # The list grows during the loop: a breadth-first search, which finds the nearest CPU first.
    for path in paths:
        if path[-1].startswith("cpu"):
            return path
        for first, second, _, _ in edges:
            if path[-1] not in (first, second):
                continue
            next_device = second if path[-1] == first else first
            if next_device not in path and not next_device.startswith("gpu"):
                paths.append((*path, next_device))
    return paths[-1]


@dataclass(frozen=True, slots=True, order=True)
class Cards:
    """The network cards that a node's GPUs use: one-way B/s, and their transport.

    ``rate`` is nominal, limited by their buses; ``bandwidth`` is the achieved rate. The transport
    is "unknown" if the link's name, aliases and description do not state it.
    """

    rate: float
    bandwidth: float
    transport: str


def network_cards(kind: NodeGraph) -> Cards:
    """Return the cards of a kind of node, all together."""
    link, bus, count = kind.node.nics.link, kind.node.nic_bus, len(set(kind.nic_of))
    named = (
        transport_of(" ".join([link.name, *link.aliases]))
        or transport_of(link.description)
        or "unknown"
    )
    rate = min(link.rate.value, bus.rate.value)
    return Cards(count * rate, count * min(link.bandwidth, bus.bandwidth), named)
