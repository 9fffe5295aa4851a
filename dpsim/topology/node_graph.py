"""The inside of a node as a graph of devices and full-duplex links, and routes between devices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from heapq import heappop, heappush
from itertools import count, pairwise
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.hardware import Link, Node, device_kind
from dpsim.topology.network import ROUTED_BY


@dataclass(frozen=True, slots=True, eq=False)
class Paths:
    """Routes inside a node.

    ``links`` (..., hops) are local capacity numbers, -1 where a route is shorter; ``latency`` in s.
    """

    links: IntArray
    latency: FloatArray


class NodeGraph:
    """A node with ``nics`` network cards, whose GPUs are placed in ring order.

    ``gpus[i]`` is the device of local rank i; with ``host``, the first CPU (or without CPUs the
    first slot of a network card) follows them as another route end. Each direction of a link is a
    capacity, and so is each device with a limit of its own. Messages pass through switches and
    CPUs, not through other GPUs. ``edges``: the node's links without those to its network cards
    (`Node.expand_edges`). ``devices[a]`` and ``links[a][b]``: the properties of a device and of a
    direction of a link. ``between_gpus`` (gpus, gpus): routes between local ranks; ``to_nic`` and
    ``from_nic`` (gpus,): routes to and from each rank's network card, `nic_of`.
    """

    def __init__(
        self, node: Node, nics: int | None = None, gpus: int | None = None, *, host: bool = False
    ) -> None:
        self.node = node
        cards = node.nic_edges(nics)
        self.edges = node.expand_edges()
        self.nics = [name for name, *_ in cards]
        # A CPU or a switch may carry less than all its links together.
        limits = {name: node.capacity(name) for name in node.device_names()}
        kinds = {name: {"kind": device_kind(name)} for name in limits}
        self.devices: dict[str, dict[str, Any]] = kinds | {
            nic: {"kind": "nic"} for nic in self.nics
        }
        self.links = _links([*self.edges, *cards], self.devices)
        self.names: list[str] = []
        self._limits = self._number_capacities(limits)
        self.capacities: FloatArray = np.array(self._limits)
        # Cached shortest paths from a device to all others, which one search finds.
        self._trees: dict[str, dict[str, list[str]]] = {}
        used = [f"gpu{i}" for i in range(node.gpus if gpus is None else gpus)]
        # Ranks are numbered along the node's best ring, because collectives run in rings.
        bandwidth = np.array([[self._bandwidth(a, b) for b in used] for a in used])
        self.gpus = [used[place] for place in ring_order(bandwidth)]
        if host:
            self.gpus.append("cpu0" if "cpu0" in self.devices else node.nic_slots[0])
        self.nic_of = self._affinity()
        self.between_gpus, self.to_nic, self.from_nic = self._tables()

    def _number_capacities(self, own: Mapping[str, float | None]) -> list[float]:
        """Number each direction of a link, then each device that has a limit of its ``own``.

        Returns the capacities (B/s) in the order of their numbers.
        """
        limits: list[float] = []
        for a, neighbours in self.links.items():
            for b, data in neighbours.items():
                data["number"] = len(limits)
                self.names.append(f"{a}->{b}")
                limits.append(data["capacity"])
        for device, data in self.devices.items():
            limit = own.get(device)  # network cards have none
            if limit is not None:
                data["number"] = len(limits)
                self.names.append(device)
                limits.append(limit)
        return limits

    def path(self, a: str, b: str) -> list[str]:
        """Return the devices from ``a`` to ``b``, inclusive."""
        if a not in self._trees:
            self._trees[a] = self._paths_from(a, ends=("gpu", "nic"))
        if b not in self._trees[a]:
            # A card may be attached only to a GPU, through which processors then send.
            self._trees[a] = {**self._paths_from(a, ends=("nic",)), **self._trees[a]}
        return self._trees[a][b]

    def _paths_from(self, start: str, ends: tuple[str, ...]) -> dict[str, list[str]]:
        """Return the path of least weight to each device; of equal ones the first found.

        Devices of the kinds ``ends`` forward nothing. This is Dijkstra's algorithm without
        networkx, whose import would take a tenth of a short run.
        """
        found: dict[str, list[str]] = {}
        order = count()
        # Numbered, so that the first of equal weights is used and paths are never compared.
        waiting = [(0.0, next(order), [start])]
        while waiting:
            weight, _, path = heappop(waiting)
            device = path[-1]
            if device in found:
                continue
            found[device] = path
            # Peer traffic passes through switches and CPUs; a GPU forwards only by software.
            if device != start and self.devices[device]["kind"] in ends:
                continue
            for other, link in self.links[device].items():
                if other not in found:
                    heappush(waiting, (weight + link["weight"], next(order), [*path, other]))
        return found

    def path_links(self, path: list[str]) -> list[int]:
        """Return the capacities on ``path``: those of its links, then those of its devices."""
        edges = [self.links[a][b]["number"] for a, b in pairwise(path)]
        on_the_way = [self.devices[device] for device in path]
        devices = [data["number"] for data in on_the_way if "number" in data]
        return edges + devices

    def path_seconds(self, path: list[str]) -> float:
        """Return the seconds of a message of 1 MiB along ``path``."""
        return float(sum(self.links[a][b]["weight"] for a, b in pairwise(path)))

    def _path_latency(self, path: list[str]) -> float:
        return float(sum(self.links[a][b]["latency"] for a, b in pairwise(path)))

    def _bandwidth(self, a: str, b: str) -> float:
        if a == b:
            return np.inf
        return min(self._limits[link] for link in self.path_links(self.path(a, b)))

    def _affinity(self) -> list[int]:
        """Return the nearest network card of each GPU; of equally near ones the least used."""
        load = [0] * len(self.nics)
        chosen = []
        for gpu in self.gpus:
            ranked = []
            for number, nic in enumerate(self.nics):
                distance = self.path_seconds(self.path(gpu, nic))
                # The number makes ties deterministic.
                ranked.append((distance, load[number], number))
            nearest = min(ranked)[2]
            load[nearest] += 1
            chosen.append(nearest)
        return chosen

    def _tables(self) -> tuple[Paths, Paths, Paths]:
        """Return routes between local ranks, from each to its network card, and back."""
        every_pair = self._paths([self.path(a, b) for a in self.gpus for b in self.gpus])
        count = len(self.gpus)
        between = Paths(
            every_pair.links.reshape(count, count, -1), every_pair.latency.reshape(count, count)
        )
        ends = [(gpu, self.nics[card]) for gpu, card in zip(self.gpus, self.nic_of, strict=True)]
        out = self._paths([self.path(gpu, card) for gpu, card in ends])
        # Not the reverse of ``out``: each direction takes the first one found of equal paths.
        back = self._paths([self.path(card, gpu) for gpu, card in ends])
        return between, out, back

    def _paths(self, paths: list[list[str]]) -> Paths:
        """Return a table of paths; a path from a device to itself crosses nothing."""
        links = [self.path_links(path) if len(path) > 1 else [] for path in paths]
        table = np.full((len(paths), max(map(len, links))), -1, dtype=np.int64)
        for row, crossed in zip(table, links, strict=True):
            row[: len(crossed)] = crossed
        latency = np.array([self._path_latency(path) for path in paths])
        return Paths(table, latency)


def _links(
    edges: list[tuple[str, str, Link, int]], devices: Iterable[str]
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return the links from each device to each other, with their properties."""
    links: dict[str, dict[str, dict[str, Any]]] = {device: {} for device in devices}
    for a, b, link, lanes in edges:
        capacity, latency = link.bandwidth * lanes, link.latency.value
        weight = latency + ROUTED_BY / capacity
        for start, end in ((a, b), (b, a)):  # full duplex: each direction has the full rate
            links[start][end] = {
                "link": link.name,
                "count": lanes,
                "capacity": capacity,
                "latency": latency,
                "weight": weight,
            }
    return links


def ring_order(bandwidth: FloatArray) -> list[int]:
    """Return devices 0 .. n-1 in the order of the ring whose slowest hop is fastest.

    The order starts at 0. ``bandwidth`` (n, n) is the B/s of each pair's route without other
    traffic. Of equally good orders the lexicographically first is returned, so equal hops do not
    change the order. It is exact: a depth-first search for a Hamiltonian cycle at each threshold,
    which is fast for the 2 to 16 GPUs of a node.
    """
    places = len(bandwidth)
    # With up to three devices all orders form the same ring.
    if places <= 3:
        return list(range(places))
    # A ring is as slow as its slowest hop: try the fastest threshold first.
    thresholds = np.unique(bandwidth[~np.eye(places, dtype=bool)])
    for threshold in thresholds[::-1]:
        fast = bandwidth >= threshold
        if not (fast.sum(axis=1) >= 2).all():
            continue  # a device has no fast hop except to itself
        order = _cycle(fast, [0])
        if order is not None:
            return order
    raise AssertionError("at the lowest threshold every order is a ring")


def _cycle(
    fast: np.ndarray[tuple[int, int], np.dtype[np.bool_]], path: list[int]
) -> list[int] | None:
    """Return the first order that extends ``path`` by fast hops and closes to a ring, if any."""
    last = path[-1]
    if len(path) == len(fast):
        return path if fast[last, path[0]] else None
    for place in range(len(fast)):
        if place in path or not fast[last, place]:
            continue
        order = _cycle(fast, [*path, place])
        if order is not None:
            return order
    return None
