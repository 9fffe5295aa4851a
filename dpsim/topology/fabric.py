"""What joins the nodes: ports (one per network card) on a single switch, or on leaves under spines."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

import networkx as nx
import numpy as np

from dpsim.topology.network import FloatArray, IntArray, Routes


@dataclass(frozen=True, slots=True)
class Ports:
    """The ends of a fabric: ``count`` ports of ``rate`` B/s each way, ``latency`` s on the link from a port to its switch."""

    count: int
    rate: float
    latency: float


class Fabric(ABC):
    """Switches between ports. Capacity p is the link out of port p, ``ports.count + p`` the link into it; the rest follow."""

    def __init__(self, ports: Ports) -> None:
        self.ports = ports

    @property
    @abstractmethod
    def capacities(self) -> FloatArray:
        """B/s of each capacity."""

    @abstractmethod
    def routes(self, source: IntArray, destination: IntArray) -> Routes:
        """The route of each pair of ports."""

    @abstractmethod
    def link(self, number: int) -> tuple[str, str]:
        """The two ends of a capacity; ports are called ``port<p>``."""

    def graph(self) -> nx.DiGraph[str]:
        """The fabric as a graph: edges hold ``capacity`` (B/s), ``latency`` (s) and ``number``."""
        graph: nx.DiGraph[str] = nx.DiGraph()
        for number, capacity in enumerate(self.capacities):
            graph.add_edge(*self.link(number), capacity=float(capacity), latency=self.ports.latency, number=number)
        return graph


class SingleSwitch(Fabric):
    """Every port on one non-blocking switch."""

    @property
    def capacities(self) -> FloatArray:
        """B/s out of each port, then into each."""
        return np.full(2 * self.ports.count, self.ports.rate)

    def routes(self, source: IntArray, destination: IntArray) -> Routes:
        """Out of the source port, into the destination port."""
        links = np.stack([source, self.ports.count + destination], axis=1)
        return Routes(links, np.full(len(source), 2 * self.ports.latency))

    def link(self, number: int) -> tuple[str, str]:
        """``("port3", "switch")`` or the way back."""
        count = self.ports.count
        return (f"port{number}", "switch") if number < count else ("switch", f"port{number - count}")


class LeafSpine(Fabric):
    """Ports on leaf switches, ``per_leaf`` each; every leaf has one link to every spine.

    A leaf's links up hold its ports' rate divided by ``oversubscription``, in equal parts. Between leaves the destination port
    chooses the spine: destination mod spines, under which shifts and exchanges over powers of two share no link (D-Mod-K: Zahavi,
    Concurrency and Computation 22, 2010).
    """

    def __init__(self, ports: Ports, *, per_leaf: int, spines: int, oversubscription: float) -> None:
        super().__init__(ports)
        self.per_leaf = per_leaf
        self.spines = spines
        self.oversubscription = oversubscription
        self.leaves = -(-ports.count // per_leaf)

    @property
    def capacities(self) -> FloatArray:
        """B/s: out of the ports, into the ports, leaf by leaf up to each spine, leaf by leaf down from each spine."""
        uplink = self.per_leaf * self.ports.rate / self.oversubscription / self.spines
        ports = np.full(2 * self.ports.count, self.ports.rate)
        return np.concatenate([ports, np.full(2 * self.leaves * self.spines, uplink)])

    def routes(self, source: IntArray, destination: IntArray) -> Routes:
        """Port, leaf, port on one leaf; port, leaf, spine, leaf, port between two."""
        here, there = source // self.per_leaf, destination // self.per_leaf
        spine = destination % self.spines
        first = 2 * self.ports.count
        up = first + here * self.spines + spine
        down = first + (self.leaves + there) * self.spines + spine
        apart = here != there
        hops = [source, np.where(apart, up, -1), np.where(apart, down, -1), self.ports.count + destination]
        return Routes(np.stack(hops, axis=1), self.ports.latency * np.where(apart, 4.0, 2.0))

    def link(self, number: int) -> tuple[str, str]:
        """Port to leaf, leaf to port, leaf to spine or spine to leaf."""
        count = self.ports.count
        if number < 2 * count:
            port = number % count
            ends = (f"port{port}", f"leaf{port // self.per_leaf}")
            return ends if number < count else ends[::-1]
        leaf, spine = divmod(number - 2 * count, self.spines)
        return (f"leaf{leaf}", f"spine{spine}") if leaf < self.leaves else (f"spine{spine}", f"leaf{leaf - self.leaves}")
