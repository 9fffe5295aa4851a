"""Shortest paths between ports through a graph, for networks without their own routing rule."""

from __future__ import annotations

import networkx as nx
import numpy as np

from dpsim.base.budget import check
from dpsim.topology.fabrics.ecmp import HASHED, Spread
from dpsim.topology.network import ROUTED_BY


class ShortestPaths:
    """Paths between the ports of a graph, each the fastest for 1 MiB.

    Edges of ``graph`` have ``capacity``, ``latency`` and ``number``; the weight of a link is its
    latency plus its transfer time. ``spread`` chooses between equal paths at each step. A port
    forwards for others only if a link joins it to another port.
    """

    def __init__(self, graph: nx.DiGraph[str], spread: Spread = HASHED) -> None:
        self.graph = graph
        self.spread = spread
        self._ends = {name for name in graph if _is_port(name) and not self._forwards(name)}
        self._lengths: dict[int, dict[str, float]] = {}
        self._reversed = graph.reverse(copy=False)

    def _forwards(self, port: str) -> bool:
        neighbours = (*self.graph.succ[port], *self.graph.pred[port])
        return any(_is_port(other) for other in neighbours)

    def reaches(self, source: int, destination: int) -> bool:
        """Return whether there is a path from port ``source`` to port ``destination``."""
        return f"port{source}" in self._lengths_to(destination)

    def path(self, source: int, destination: int) -> list[int]:
        """Return the numbers of the links from port ``source`` to port ``destination``.

        There must be a path.
        """
        lengths = self._lengths_to(destination)
        device = f"port{source}"
        end = f"port{destination}"
        ends = np.array([source]), np.array([destination])
        links: list[int] = []
        while device != end:
            check()
            hops = self._next_hops(device, end, lengths)
            chosen = self.spread.choose(*ends, len(hops), level=len(links))
            device, number = hops[int(chosen[0])]
            links.append(number)
        return links

    def _next_hops(self, device: str, end: str, lengths: dict[str, float]) -> list[tuple[str, int]]:
        """Return the next devices on shortest paths, with the numbers of the links to them."""
        best = lengths[device] * (1 + 1e-9)  # equal up to rounding
        hops = []
        for other, data in self.graph.succ[device].items():
            passes = other == end or other not in self._ends
            if passes and other in lengths and _weight(data) + lengths[other] <= best:
                hops.append((other, data["number"]))
        return hops

    def _lengths_to(self, destination: int) -> dict[str, float]:
        """Return the seconds of 1 MiB from every device to port ``destination``."""
        if destination in self._lengths:
            return self._lengths[destination]
        end = f"port{destination}"

        def weight(a: str, b: str, data: dict[str, float]) -> float | None:
            check()
            return None if a in self._ends and a != end else _weight(data)

        found: dict[str, float] = {}
        if end in self.graph:
            # Backwards from the end, with one search for all sources.
            found = dict(nx.single_source_dijkstra_path_length(self._reversed, end, weight=weight))
        self._lengths[destination] = found
        return found


def _is_port(name: str) -> bool:
    return name.startswith("port") and name[4:].isdigit()


def _weight(data: dict[str, float]) -> float:
    return data["latency"] + ROUTED_BY / data["capacity"]
