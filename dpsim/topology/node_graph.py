"""The inside of a node as a networkx graph.

Devices, full-duplex links, routes between its GPUs and to its network cards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import networkx as nx
import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.hardware import Node
from dpsim.topology.ring_order import ring_order

_REFERENCE_MESSAGE = (
    2**20
)  # bytes: the route between two devices is the one that takes a message of this size soonest


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Routes inside a node.

    ``links`` (..., hops) are local capacity numbers, -1 where a route is shorter; ``latency`` in s.
    """

    links: IntArray
    latency: FloatArray


class NodeGraph:
    """A node with ``nics`` network cards, whose GPUs take their places in ring order.

    ``gpus[i]`` is the device at local rank i; with ``host``, the first CPU (the first slot of a
    network card, where there is none) comes after them and is an end of routes like them. Each
    direction of a link is a capacity, and so is each device with a limit of its own. Messages pass
    through switches and CPUs, not through other GPUs.
    """

    def __init__(
        self, node: Node, nics: int | None = None, gpus: int | None = None, *, host: bool = False
    ) -> None:
        self.node = node
        self.graph = _graph(node, nics)
        self.names: list[str] = []
        self.capacities: FloatArray = np.empty(0)
        self._number_capacities()
        self._trees: dict[str, dict[str, list[str]]] = {}
        used = [f"gpu{i}" for i in range(node.gpus if gpus is None else gpus)]
        self.nics = sorted(
            (name for name in self.graph if name.startswith("nic")), key=lambda name: int(name[3:])
        )
        self.gpus = [
            used[place]
            for place in ring_order(np.array([[self._bandwidth(a, b) for b in used] for a in used]))
        ]
        if host:
            self.gpus.append("cpu0" if "cpu0" in self.graph else node.nic_slots[0])
        self.nic_of = self._affinity()

    def _number_capacities(self) -> None:
        limits: list[float] = []
        for a, b, data in self.graph.edges(data=True):
            data["number"] = len(limits)
            self.names.append(f"{a}->{b}")
            limits.append(data["capacity"])
        for device, data in self.graph.nodes(data=True):
            limit = self.node.capacity(device) if not device.startswith("nic") else None
            if limit is not None:
                data["number"] = len(limits)
                self.names.append(device)
                limits.append(limit)
        self.capacities = np.array(limits)

    def path(self, a: str, b: str) -> list[str]:
        """The devices from ``a`` to ``b``, both included."""
        if a not in self._trees:
            self._trees[a] = nx.single_source_dijkstra_path(
                _without_other_gpus(self.graph, a), a, weight="weight"
            )
        return self._trees[a][b]

    def _path_links(self, path: list[str]) -> list[int]:
        edges = [self.graph.edges[hop]["number"] for hop in pairwise(path)]
        devices = [
            self.graph.nodes[device]["number"]
            for device in path
            if "number" in self.graph.nodes[device]
        ]
        return edges + devices

    def _path_latency(self, path: list[str]) -> float:
        return float(sum(self.graph.edges[hop]["latency"] for hop in pairwise(path)))

    def _bandwidth(self, a: str, b: str) -> float:
        return float(self.capacities[self._path_links(self.path(a, b))].min()) if a != b else np.inf

    def _affinity(self) -> list[int]:
        """The network card of each GPU.

        The nearest one; of equally near ones that with the fewest GPUs so far.
        """
        load = [0] * len(self.nics)
        chosen = []
        for gpu in self.gpus:
            distance = [
                (_length(self.graph, self.path(gpu, nic)), load[i], i)
                for i, nic in enumerate(self.nics)
            ]
            nic = min(distance)[2]
            load[nic] += 1
            chosen.append(nic)
        return chosen

    @cached_property
    def between_gpus(self) -> Paths:
        """Routes from each local rank to each other, shapes (gpus, gpus, hops) and (gpus, gpus)."""
        return self._paths([[self.path(a, b) for b in self.gpus] for a in self.gpus])

    @cached_property
    def to_nic(self) -> Paths:
        """Routes from each local rank to its network card, shapes (1, gpus, hops) and (1, gpus)."""
        return self._paths(
            [
                [
                    self.path(gpu, self.nics[nic])
                    for gpu, nic in zip(self.gpus, self.nic_of, strict=True)
                ]
            ]
        )

    @cached_property
    def from_nic(self) -> Paths:
        """Routes from each local rank's network card to it, shapes (1, gpus, hops) and (1, gpus)."""
        return self._paths(
            [
                [
                    self.path(self.nics[nic], gpu)
                    for gpu, nic in zip(self.gpus, self.nic_of, strict=True)
                ]
            ]
        )

    def _paths(self, rows: list[list[list[str]]]) -> Paths:
        links = [[self._path_links(path) if len(path) > 1 else [] for path in row] for row in rows]
        hops = max(len(found) for row in links for found in row)
        padded = [[found + [-1] * (hops - len(found)) for found in row] for row in links]
        latency = [[self._path_latency(path) for path in row] for row in rows]
        return Paths(
            np.array(padded, dtype=np.int64).reshape(len(rows), len(self.gpus), hops),
            np.array(latency),
        )


def _graph(node: Node, nics: int | None) -> nx.DiGraph[str]:
    graph: nx.DiGraph[str] = nx.DiGraph()
    for device in node.device_names():
        graph.add_node(device, kind=device.rstrip("0123456789"))
    buses = node.nic_edges(nics)
    for nic, *_ in buses:
        graph.add_node(nic, kind="nic")
    for a, b, link, count in [*node.expand_edges(), *buses]:
        capacity, latency = link.bandwidth * count, link.latency.value
        weight = latency + _REFERENCE_MESSAGE / capacity
        for pair in ((a, b), (b, a)):
            graph.add_edge(
                *pair,
                link=link.name,
                count=count,
                capacity=capacity,
                latency=latency,
                weight=weight,
            )
    return graph


def _without_other_gpus(graph: nx.DiGraph[str], start: str) -> nx.DiGraph[str]:
    """``graph`` without the links out of other GPUs than ``start``.

    They end routes but forward nothing.
    """
    kept: nx.DiGraph[str] = nx.DiGraph()
    kept.add_nodes_from(graph)
    kept.add_edges_from(
        (a, b, data)
        for a, b, data in graph.edges(data=True)
        if a == start or graph.nodes[a]["kind"] not in ("gpu", "nic")
    )
    return kept


def _length(graph: nx.DiGraph[str], path: list[str]) -> float:
    return float(sum(graph.edges[hop]["weight"] for hop in pairwise(path)))
