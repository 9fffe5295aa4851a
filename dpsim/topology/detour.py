"""Routes around cut links: the shortest remaining path in the network's graph."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from dpsim.base.arrays import IntArray
from dpsim.base.errors import DpsimError
from dpsim.topology.network import Network, Routes

if TYPE_CHECKING:
    import networkx as nx

_SHOWN_LINKS = 8  # cut links in a message


@runtime_checkable
class NetworkWithGraph(Network, Protocol):
    """A network that also has a graph.

    Edges have ``number`` (the capacity) and ``latency`` (s); `gpu_name` names the GPUs.
    """

    def graph(self) -> nx.DiGraph[str]:
        """Return the graph of the whole network."""

    def gpu_name(self, rank: int) -> str:
        """Return the name of the GPU of ``rank`` in the graph."""


def routes_avoiding(
    network: Network, source: IntArray, destination: IntArray, cut: frozenset[int]
) -> Routes:
    """Return routes of pairs of ranks that cross none of the capacities in ``cut``.

    Takes the path with the fewest hops, and of those the one with the least latency. Messages pass
    through switches, CPUs and cards, not through other GPUs. Raises DpsimError if no path remains.
    """
    names = _named(network, cut)
    if not isinstance(network, NetworkWithGraph):
        raise DpsimError(
            f"no path remains around {names}: each rank has a single link to the switch"
        )
    import networkx as nx  # slow to import, needed only if a link is cut

    graph = network.graph()
    paths: list[list[int]] = []
    latencies: list[float] = []
    for start, end in zip(source.tolist(), destination.tolist(), strict=True):
        a, b = network.gpu_name(start), network.gpu_name(end)
        try:
            hops = _remaining_path(graph, a, b, cut)
        except nx.NetworkXNoPath:
            raise DpsimError(f"no path remains from {a} to {b} when {names} is cut") from None
        paths.append(_capacities_on(graph, hops))
        latencies.append(sum(graph.edges[hop]["latency"] for hop in hops))

    links = np.full((len(paths), max(map(len, paths))), -1, dtype=np.int64)
    for row, path in zip(links, paths, strict=True):
        row[: len(path)] = path
    return Routes(links, np.array(latencies))


def _capacities_on(graph: nx.DiGraph[str], hops: list[tuple[str, str]]) -> list[int]:
    """Return every capacity that a path crosses: links, shared directions, and devices."""
    edges = [graph.edges[hop] for hop in hops]
    devices = [graph.nodes[name] for name in (hops[0][0], *(end for _, end in hops))]
    return [
        *(data["number"] for data in edges),
        *(data["shared"] for data in edges if "shared" in data),
        *(data["number"] for data in devices if "number" in data),
    ]


def _remaining_path(
    graph: nx.DiGraph[str], a: str, b: str, cut: frozenset[int]
) -> list[tuple[str, str]]:
    """Return the hops from ``a`` to ``b`` that cross no capacity in ``cut``."""
    import networkx as nx

    def weight(start: str, end: str, data: dict[str, Any]) -> float | None:
        # Switches between nodes have no kind.
        forwards = start == a or graph.nodes[start].get("kind") != "gpu"
        devices = (graph.nodes[start], graph.nodes[end])
        crossed = {data["number"], data.get("shared"), *(each.get("number") for each in devices)}
        if not forwards or crossed & cut:
            return None
        latency: float = data["latency"]
        return 1 + latency  # latencies are far below 1 s, so hops count first

    return list(pairwise(nx.dijkstra_path(graph, a, b, weight=weight)))


def _named(network: Network, cut: frozenset[int]) -> str:
    """Return the names of the cut links for a message; only the first few."""
    names = [network.link_name(link) for link in sorted(cut)[:_SHOWN_LINKS]]
    more = len(cut) - len(names)
    return ", ".join(names) + (f" and {more:,} more" if more else "")
