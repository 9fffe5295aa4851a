"""A cluster as NCCL's model sees it, read off the catalogue's entries."""

from __future__ import annotations

import numpy as np

from dpsim.base.errors import DpsimError
from dpsim.collectives import Groups, RankLayout
from dpsim.hardware import Gpu, Link, pcie_rate
from dpsim.network.libraries.nccl.describe import MESH_RINGS, Inside
from dpsim.network.libraries.nccl.machine import NVMESH, NVSWITCH, PCIE, NcclMachine
from dpsim.network.libraries.nccl.network_text import transport_of
from dpsim.network.maxmin import max_min_rates
from dpsim.topology import Cluster, NodeGraph


def machine_of(cluster: Cluster, groups: Groups | None = None) -> NcclMachine:
    """The machine that ``cluster`` is to NCCL; of unlike nodes the slowest counts.

    With ``groups`` that of each of them: a node's cards are shared evenly by the groups whose ranks
    it holds. Raises DpsimError for accelerators that NCCL does not serve, and for nodes or groups
    that come out uneven.
    """
    per_node = cluster.per_node
    local, nodes = per_node, cluster.nodes
    if groups is not None:
        among = groups.among(RankLayout(cluster.ranks, per_node))
        local = among.groups_of("library nccl in groups")
        nodes = among.ranks // local
    capability, _, name = min(
        (_capability(kind.node.gpu), place, kind.node.gpu.name)
        for place, kind in enumerate(cluster.kinds)
    )
    inside = min((_inside(kind, local) for kind in cluster.kinds), key=lambda found: found.rate)
    nics = [network_cards(kind) for kind in cluster.kinds] if nodes > 1 else []
    rate, transport = min(nics, default=(0.0, "none"))
    return NcclMachine(
        gpu=name,
        capability=capability,
        intra=inside.kind,
        intra_rate=inside.rate,
        staged=inside.staged,
        shared=inside.shared,
        nodes=nodes,
        gpus_per_node=local,
        transport=transport,
        nic_rate=rate * local / per_node,
    )


def _capability(gpu: Gpu) -> int:
    if gpu.capability is None:
        raise DpsimError(f"library nccl must have NVIDIA GPUs, but got {gpu.name!r}")
    return gpu.capability


def _inside(kind: NodeGraph, local: int) -> Inside:
    """What joins a node's GPUs; a GPU alone counts as on PCIe."""
    staged = not kind.node.gpu.peer_access
    if local == 1:
        return Inside(PCIE, pcie_rate(3), staged)
    used = set(kind.gpus)
    first = kind.gpus[0]
    links = [edge for edge in kind.node.expand_edges() if first in edge[:2]]
    nvlinks = [edge for edge in links if "nvlink" in edge[2].name]
    if any("switch" in a + b for a, b, _, _ in nvlinks):
        return Inside(NVSWITCH, sum(link.rate.value * count for _, _, link, count in nvlinks))
    if nvlinks and all(a in used or b in used for a, b, _, _ in nvlinks):
        _, _, link, _ = nvlinks[0]
        return Inside(NVMESH, MESH_RINGS.get(local, 6) * link.rate.value)
    bus = max((link for _, _, link, _ in links), key=lambda link: link.rate.value)
    return Inside(PCIE, _ring_rate(kind, bus), staged, shared=True)


def _ring_rate(kind: NodeGraph, bus: Link) -> float:
    """Nominal B/s of the slowest hop when a ring through all GPUs shares the node's buses."""
    place = np.arange(len(kind.gpus))
    links = kind.between_gpus.links[place, (place + 1) % len(place)]
    return float(max_min_rates(links, kind.capacities).min()) * bus.rate.value / bus.bandwidth


def network_cards(kind: NodeGraph) -> tuple[float, str]:
    """Line rate (B/s) of the cards that a node's GPUs use, and the transport.

    The rate is what their buses carry of it. The transport is "unknown" where the link's name,
    aliases and description do not say it.
    """
    link = kind.node.nics.link
    each = min(link.rate.value, kind.node.nic_bus.rate.value)
    named = (
        transport_of(" ".join([link.name, *link.aliases]))
        or transport_of(link.description)
        or "unknown"
    )
    return len(set(kind.nic_of)) * each, named
