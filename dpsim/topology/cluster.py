"""A cluster: equal nodes on a fabric, with routes from GPU to GPU as lists of capacities.

The graph of a node is built once and stands for all of them: capacities of node k follow those of node k-1, the fabric's come last.
"""

from __future__ import annotations

from functools import cached_property

import networkx as nx
import numpy as np

from dpsim.topology.fabric import Fabric
from dpsim.topology.network import FloatArray, IntArray, Routes
from dpsim.topology.node_graph import NodeGraph


class Cluster:
    """``nodes`` copies of a node on a fabric (None for a single node); rank r is local rank r mod g of node r // g."""

    def __init__(self, node: NodeGraph, nodes: int, fabric: Fabric | None) -> None:
        assert fabric is None or fabric.ports.count == nodes * len(node.nics), "a fabric has a port for each network card"
        self.node = node
        self.nodes = nodes
        self.fabric = fabric
        self.per_node = len(node.gpus)
        self._inside = len(node.capacities)

    @property
    def ranks(self) -> int:
        """The number of GPUs."""
        return self.nodes * self.per_node

    @cached_property
    def capacities(self) -> FloatArray:
        """B/s of every capacity: node by node, then the fabric's."""
        inside = np.tile(self.node.capacities, self.nodes)
        return inside if self.fabric is None else np.concatenate([inside, self.fabric.capacities])

    def routes(self, source: IntArray, destination: IntArray) -> Routes:
        """The route of each pair of ranks: inside the node, or through the network cards and the fabric."""
        here, there = source // self.per_node, destination // self.per_node
        apart = here != there
        if not apart.any():
            return self._inside_routes(source, destination)
        if apart.all():
            return self._outside_routes(source, destination)
        return _merged(
            apart,
            self._inside_routes(source[~apart], destination[~apart]),
            self._outside_routes(source[apart], destination[apart]),
        )

    def _inside_routes(self, source: IntArray, destination: IntArray) -> Routes:
        paths = self.node.between_gpus
        a, b = source % self.per_node, destination % self.per_node
        return Routes(self._placed(paths.links[a, b], source), paths.latency[a, b])

    def _outside_routes(self, source: IntArray, destination: IntArray) -> Routes:
        assert self.fabric is not None, "ranks of different nodes are joined by a fabric"
        a, b = source % self.per_node, destination % self.per_node
        out, back = self.node.to_nic, self.node.from_nic
        between = self.fabric.routes(self._port(source), self._port(destination))
        first = self.nodes * self._inside
        hops = [
            self._placed(out.links[0, a], source),
            np.where(between.links < 0, -1, between.links + first),
            self._placed(back.links[0, b], destination),
        ]
        return Routes(np.concatenate(hops, axis=1), out.latency[0, a] + between.latency + back.latency[0, b])

    def _placed(self, links: IntArray, rank: IntArray) -> IntArray:
        """Local capacity numbers of each rank's node as numbers of the whole cluster."""
        return np.where(links < 0, -1, links + (rank // self.per_node * self._inside)[:, None])

    def _port(self, rank: IntArray) -> IntArray:
        nic = np.array(self.node.nic_of, dtype=np.int64)
        return rank // self.per_node * len(self.node.nics) + nic[rank % self.per_node]

    def link_name(self, link: int) -> str:
        """``node3/gpu0->pcie-switch0``, or ``node3/nic0->leaf0`` for a link of the fabric."""
        node, local = divmod(link, self._inside)
        if node < self.nodes:
            return f"node{node}/{self.node.names[local]}"
        assert self.fabric is not None
        return "->".join(self._fabric_end(end) for end in self.fabric.link(link - self.nodes * self._inside))

    def _fabric_end(self, end: str) -> str:
        if not end.startswith("port"):
            return end
        node, nic = divmod(int(end[4:]), len(self.node.nics))
        return f"node{node}/nic{nic}"

    def graph(self) -> nx.DiGraph[str]:
        """The whole cluster as one graph; edges hold ``capacity`` (B/s), ``latency`` (s) and ``number``."""
        whole: nx.DiGraph[str] = nx.DiGraph()
        for node in range(self.nodes):
            for name, data in self.node.graph.nodes(data=True):
                whole.add_node(f"node{node}/{name}", kind=data["kind"])
            for a, b, data in self.node.graph.edges(data=True):
                numbered = {**data, "number": data["number"] + node * self._inside}
                whole.add_edge(f"node{node}/{a}", f"node{node}/{b}", **numbered)
        if self.fabric is not None:
            for a, b, data in self.fabric.graph().edges(data=True):
                numbered = {**data, "number": data["number"] + self.nodes * self._inside}
                whole.add_edge(self._fabric_end(a), self._fabric_end(b), **numbered)
        return whole


def _merged(apart: np.ndarray[tuple[int], np.dtype[np.bool_]], inside: Routes, outside: Routes) -> Routes:
    hops = max(inside.links.shape[1], outside.links.shape[1])
    links = np.full((len(apart), hops), -1, dtype=np.int64)
    latency = np.empty(len(apart))
    for which, routes in ((~apart, inside), (apart, outside)):
        links[which, : routes.links.shape[1]] = routes.links
        latency[which] = routes.latency
    return Routes(links, latency)
