"""The inside of a node as a networkx graph.

It holds devices, full-duplex links, and routes between the node's GPUs and to its network cards.
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

# Bytes: the route between two devices is the one that takes a message of this size soonest.
_REFERENCE_MESSAGE = 2**20


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
        # Shortest paths from a device to all others, kept: a search gives them all at once.
        self._trees: dict[str, dict[str, list[str]]] = {}
        cards = [name for name in self.graph if name.startswith("nic")]
        self.nics = sorted(cards, key=lambda name: int(name.removeprefix("nic")))
        used = [f"gpu{i}" for i in range(node.gpus if gpus is None else gpus)]
        # As collectives go in rings, ranks are numbered along the best ring that the node has.
        bandwidth = np.array([[self._bandwidth(a, b) for b in used] for a in used])
        self.gpus = [used[place] for place in ring_order(bandwidth)]
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
            # A CPU or a switch can carry less than its links together: a bridge's own limit.
            limit = None if device.startswith("nic") else self.node.capacity(device)
            if limit is not None:
                data["number"] = len(limits)
                self.names.append(device)
                limits.append(limit)
        self.capacities = np.array(limits)

    def path(self, a: str, b: str) -> list[str]:
        """The devices from ``a`` to ``b``, both included."""
        if a not in self._trees:
            # Peer traffic goes through switches and CPUs; a GPU forwards only where software does.
            forwarding = _without_other_gpus(self.graph, a)
            self._trees[a] = nx.single_source_dijkstra_path(forwarding, a, weight="weight")
        return self._trees[a][b]

    def path_links(self, path: list[str]) -> list[int]:
        """The capacities on ``path``: those of its links, then those of its devices."""
        edges = [self.graph.edges[hop]["number"] for hop in pairwise(path)]
        on_the_way = [self.graph.nodes[device] for device in path]
        devices = [data["number"] for data in on_the_way if "number" in data]
        return edges + devices

    def path_seconds(self, path: list[str]) -> float:
        """About how long a message of 1 MiB takes along ``path``."""
        return float(sum(self.graph.edges[hop]["weight"] for hop in pairwise(path)))

    def _path_latency(self, path: list[str]) -> float:
        return float(sum(self.graph.edges[hop]["latency"] for hop in pairwise(path)))

    def _bandwidth(self, a: str, b: str) -> float:
        if a == b:
            return np.inf
        return float(self.capacities[self.path_links(self.path(a, b))].min())

    def _affinity(self) -> list[int]:
        """The network card of each GPU: the nearest one.

        Of equally near ones it is that with the fewest GPUs so far.
        """
        load = [0] * len(self.nics)
        chosen = []
        for gpu in self.gpus:
            ranked = []
            for number, nic in enumerate(self.nics):
                distance = self.path_seconds(self.path(gpu, nic))
                # The number last, so that ties come out alike each time.
                ranked.append((distance, load[number], number))
            nearest = min(ranked)[2]
            load[nearest] += 1
            chosen.append(nearest)
        return chosen

    @cached_property
    def between_gpus(self) -> Paths:
        """Routes from each local rank to each other, shapes (gpus, gpus, hops) and (gpus, gpus)."""
        every_pair = [self.path(a, b) for a in self.gpus for b in self.gpus]
        flat = self._paths(every_pair)
        count = len(self.gpus)
        links = flat.links.reshape(count, count, -1)
        return Paths(links, flat.latency.reshape(count, count))

    @cached_property
    def to_nic(self) -> Paths:
        """Routes from each local rank to its network card, shapes (gpus, hops) and (gpus,)."""
        cards = [self.nics[number] for number in self.nic_of]
        return self._paths([self.path(*ends) for ends in zip(self.gpus, cards, strict=True)])

    @cached_property
    def from_nic(self) -> Paths:
        """Routes from each local rank's network card to it, shapes (gpus, hops) and (gpus,)."""
        cards = [self.nics[number] for number in self.nic_of]
        return self._paths([self.path(*ends) for ends in zip(cards, self.gpus, strict=True)])

    def _paths(self, paths: list[list[str]]) -> Paths:
        """A table of paths; one from a device to itself crosses nothing."""
        links = [self.path_links(path) if len(path) > 1 else [] for path in paths]
        table = np.full((len(paths), max(map(len, links))), -1, dtype=np.int64)
        for row, crossed in zip(table, links, strict=True):
            row[: len(crossed)] = crossed
        latency = np.array([self._path_latency(path) for path in paths])
        return Paths(table, latency)


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
        for start, end in ((a, b), (b, a)):  # full duplex: each direction has all of it
            graph.add_edge(
                start,
                end,
                link=link.name,
                count=count,
                capacity=capacity,
                latency=latency,
                weight=weight,
            )
    return graph


def _without_other_gpus(graph: nx.DiGraph[str], start: str) -> nx.DiGraph[str]:
    """``graph`` without the links out of network cards, and of other GPUs than ``start``.

    They end routes but forward nothing.
    """
    kept: nx.DiGraph[str] = nx.DiGraph()
    kept.add_nodes_from(graph)
    for a, b, data in graph.edges(data=True):
        if a == start or graph.nodes[a]["kind"] not in ("gpu", "nic"):
            kept.add_edge(a, b, **data)
    return kept
