"""The inside of a node as a graph.

It holds devices, full-duplex links, and routes between the node's GPUs and to its network cards.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.hardware import Node
from dpsim.topology.network import ROUTED_BY
from dpsim.topology.ring_order import ring_order


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
    through switches and CPUs, not through other GPUs. ``devices[a]`` and ``links[a][b]`` say what
    is known of a device and of a link's direction.
    """

    def __init__(
        self, node: Node, nics: int | None = None, gpus: int | None = None, *, host: bool = False
    ) -> None:
        self.node = node
        self.devices = _devices(node, nics)
        self.links = _links(node, nics, self.devices)
        self.names: list[str] = []
        self.capacities: FloatArray = np.empty(0)
        self._number_capacities()
        # Shortest paths from a device to all others, kept: a search gives them all at once.
        self._trees: dict[str, dict[str, list[str]]] = {}
        cards = [name for name in self.devices if name.startswith("nic")]
        self.nics = sorted(cards, key=lambda name: int(name.removeprefix("nic")))
        used = [f"gpu{i}" for i in range(node.gpus if gpus is None else gpus)]
        # As collectives go in rings, ranks are numbered along the best ring that the node has.
        bandwidth = np.array([[self._bandwidth(a, b) for b in used] for a in used])
        self.gpus = [used[place] for place in ring_order(bandwidth)]
        if host:
            self.gpus.append("cpu0" if "cpu0" in self.devices else node.nic_slots[0])
        self.nic_of = self._affinity()

    def _number_capacities(self) -> None:
        limits: list[float] = []
        for a, ways in self.links.items():
            for b, data in ways.items():
                data["number"] = len(limits)
                self.names.append(f"{a}->{b}")
                limits.append(data["capacity"])
        for device, data in self.devices.items():
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
            self._trees[a] = self._paths_from(a)
        return self._trees[a][b]

    def _paths_from(self, start: str) -> dict[str, list[str]]:
        """The path of least weight to each device; of equal ones the first found.

        Dijkstra's algorithm by hand: importing networkx for it would be a tenth of a short run.
        """
        found: dict[str, list[str]] = {}
        order = count()
        waiting = [(0.0, next(order), [start])]
        while waiting:
            weight, _, path = heappop(waiting)
            device = path[-1]
            if device in found:
                continue
            found[device] = path
            # Peer traffic goes through switches and CPUs; a GPU forwards only where software does.
            if device != start and self.devices[device]["kind"] in ("gpu", "nic"):
                continue
            for other, link in self.links[device].items():
                if other not in found:
                    heappush(waiting, (weight + link["weight"], next(order), [*path, other]))
        return found

    def path_links(self, path: list[str]) -> list[int]:
        """The capacities on ``path``: those of its links, then those of its devices."""
        edges = [self.links[a][b]["number"] for a, b in pairwise(path)]
        on_the_way = [self.devices[device] for device in path]
        devices = [data["number"] for data in on_the_way if "number" in data]
        return edges + devices

    def path_seconds(self, path: list[str]) -> float:
        """About how long a message of 1 MiB takes along ``path``."""
        return float(sum(self.links[a][b]["weight"] for a, b in pairwise(path)))

    def _path_latency(self, path: list[str]) -> float:
        return float(sum(self.links[a][b]["latency"] for a, b in pairwise(path)))

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


def _devices(node: Node, nics: int | None) -> dict[str, dict[str, Any]]:
    """The kind of each device, network cards last."""
    devices = {name: {"kind": name.rstrip("0123456789")} for name in node.device_names()}
    return devices | {nic: {"kind": "nic"} for nic, *_ in node.nic_edges(nics)}


def _links(
    node: Node, nics: int | None, devices: dict[str, dict[str, Any]]
) -> dict[str, dict[str, dict[str, Any]]]:
    """What leads from each device to each."""
    links: dict[str, dict[str, dict[str, Any]]] = {device: {} for device in devices}
    for a, b, link, lanes in [*node.expand_edges(), *node.nic_edges(nics)]:
        capacity, latency = link.bandwidth * lanes, link.latency.value
        weight = latency + ROUTED_BY / capacity
        for start, end in ((a, b), (b, a)):  # full duplex: each direction has all of it
            links[start][end] = {
                "link": link.name,
                "count": lanes,
                "capacity": capacity,
                "latency": latency,
                "weight": weight,
            }
    return links
