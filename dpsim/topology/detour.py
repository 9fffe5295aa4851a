"""Routes around links that have been cut.

The shortest path that remains in the graph of the network.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, Protocol, runtime_checkable

import networkx as nx
import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.base.errors import DpsimError
from dpsim.topology.network import Network, Routes


@runtime_checkable
class NetworkWithGraph(Network, Protocol):
    """A network that also has a graph.

    Edges hold ``number`` (the capacity) and ``latency`` (s), GPUs are called by `gpu_name`.
    """

    def graph(self) -> nx.DiGraph[str]:
        """The whole network."""

    def gpu_name(self, rank: int) -> str:
        """The node of the graph at which ``rank`` computes."""


def routes_avoiding(
    network: Network, source: IntArray, destination: IntArray, cut: frozenset[int]
) -> Routes:
    """Routes of pairs of ranks that cross none of the capacities in ``cut``.

    By fewest hops, then by latency.

    Messages pass through switches, CPUs and cards, not through other GPUs. Raises DpsimError where
    no path remains.
    """
    names = ", ".join(network.link_name(link) for link in sorted(cut))
    if not isinstance(network, NetworkWithGraph):
        raise DpsimError(
            f"no path remains around {names}: each rank has a single link to the switch"
        )
    paths = [
        _path(network, int(a), int(b), cut, names) for a, b in zip(source, destination, strict=True)
    ]
    hops = max(len(links) for links, _ in paths)
    links = np.array([found + [-1] * (hops - len(found)) for found, _ in paths], dtype=np.int64)
    return Routes(links, np.array([latency for _, latency in paths]))


def _path(
    network: NetworkWithGraph, source: int, destination: int, cut: frozenset[int], names: str
) -> tuple[list[int], float]:
    a, b = network.gpu_name(source), network.gpu_name(destination)
    whole = network.graph()

    def weight(start: str, end: str, data: dict[str, Any]) -> float | None:
        forwards = start == a or whole.nodes[start].get("kind") != "gpu"
        return 1 + data["latency"] if forwards and data["number"] not in cut else None

    try:
        path = nx.dijkstra_path(whole, a, b, weight=weight)
    except nx.NetworkXNoPath:
        raise DpsimError(f"no path remains from {a} to {b} when {names} is cut") from None
    edges = [whole.edges[hop] for hop in pairwise(path)]
    return [edge["number"] for edge in edges], sum(edge["latency"] for edge in edges)
