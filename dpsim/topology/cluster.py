"""A cluster: nodes on a fabric, with routes from GPU to GPU as lists of capacities.

The graph of a kind of node is built once and used for all nodes of that kind. Capacities are
numbered node by node; the fabric's come last.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray, IntArray
from dpsim.hardware import Gpu
from dpsim.topology.fabrics import Fabric
from dpsim.topology.mesh import Mesh
from dpsim.topology.network import Routes
from dpsim.topology.node_graph import NodeGraph, Paths

if TYPE_CHECKING:
    import networkx as nx

    from dpsim.topology.duplex_limits import DuplexLimits


class _Tables(NamedTuple):
    """Routes inside the kinds of nodes, one row per GPU of each kind, kinds in order.

    ``between``: to the node's other GPUs; ``out``: to its network card; ``back``: from there;
    ``nic_of``: the card's number in the node.
    """

    between: Paths
    out: Paths
    back: Paths
    nic_of: IntArray

    @classmethod
    def of(cls, kinds: Sequence[NodeGraph]) -> _Tables:
        """Return the tables of all ``kinds``."""
        most = max(len(kind.gpus) for kind in kinds)
        return cls(
            _stacked([kind.between_gpus for kind in kinds], (most,)),
            _stacked([kind.to_nic for kind in kinds], ()),
            _stacked([kind.from_nic for kind in kinds], ()),
            np.concatenate([np.array(kind.nic_of, dtype=np.int64) for kind in kinds]),
        )


class Cluster:
    """Groups of (node, count) on a fabric (None for a single node), with ranks node by node.

    ``ranks``: the number of GPUs; ``per_node``: of each node's, None if nodes differ. ``mesh``: the
    GPUs as groups. ``grid``: the sides of the fabric's grid in nodes of one GPU, None without one.
    ``node_of`` and ``local_of`` (ranks,): each rank's node and local rank. ``first_rank``,
    ``first_capacity`` and ``first_port`` (nodes + 1,): the first of each node. ``accelerators``:
    the GPUs of all ranks in order, as runs of (GPU, number of ranks); ``accelerator_of`` (ranks,):
    each rank's run. ``capacities``: B/s, node by node, then the fabric's. ``reduces``: whether its
    switches reduce. ``duplex``: the share of its rate that each direction of a network card's link
    keeps while both carry data; if it is below 1, joint capacities of both directions come last.
    ``cautions``: uncertainties of its rates.
    """

    def __init__(
        self,
        groups: Sequence[tuple[NodeGraph, int]],
        fabric: Fabric | None,
        *,
        reduces: bool = False,
        duplex: float = 1.0,
        cautions: Sequence[str] = (),
    ) -> None:
        self.kinds = tuple(kind for kind, _ in groups)
        self._counts = tuple(count for _, count in groups)
        self.kind_of = np.repeat(np.arange(len(groups)), self._counts)
        self.nodes = len(self.kind_of)
        self.fabric = fabric
        self.reduces = reduces
        self.cautions = cautions
        self.duplex_limits: DuplexLimits | None = None
        if fabric is not None and duplex != 1:
            from dpsim.topology.duplex_limits import DuplexLimits

            self.duplex_limits = DuplexLimits(fabric, duplex)
        gpus_of_kind = np.array([len(kind.gpus) for kind in self.kinds])
        capacities_of_kind = np.array([len(kind.capacities) for kind in self.kinds])
        cards_of_kind = np.array([len(kind.nics) for kind in self.kinds])
        gpus = gpus_of_kind[self.kind_of]
        self.first_rank = _starts(gpus)
        self.first_capacity = _starts(capacities_of_kind[self.kind_of])
        self.first_port = _starts(cards_of_kind[self.kind_of])
        assert fabric is None or fabric.ports.count == self.first_port[-1], (
            "a fabric has a port for each network card"
        )

        self.node_of = np.repeat(np.arange(self.nodes), gpus)
        self.local_of = np.arange(len(self.node_of)) - self.first_rank[self.node_of]
        self.ranks = len(self.node_of)
        equal = np.ptp(gpus_of_kind) == 0
        self.per_node = int(gpus_of_kind[0]) if equal else None
        self.mesh = Mesh(self.ranks, self.per_node)
        self.grid = _grid(fabric, self.ranks) if self.per_node == 1 else None
        # A row per GPU of each kind, not of each node, so that many equal nodes have small tables.
        first_row_of_kind = _starts(gpus_of_kind)
        self._row_of = first_row_of_kind[self.kind_of[self.node_of]] + self.local_of
        self.accelerators = _accelerators(groups)
        ranks_of_runs = [count for _, count in self.accelerators]
        self.accelerator_of = np.repeat(np.arange(len(ranks_of_runs)), ranks_of_runs)
        self._tables = _Tables.of(self.kinds)
        self.capacities = _rates(groups, fabric, self.duplex_limits)

    @property
    def node(self) -> NodeGraph:
        """The first kind of node, which is the only one if all nodes are equal."""
        return self.kinds[0]

    def routes(self, source: IntArray, destination: IntArray) -> Routes:
        """Return the route of each pair of ranks.

        It stays inside the node, or goes through the network cards and the fabric. Raises
        DpsimError if links that are down leave no path.
        """
        apart = self.node_of[source] != self.node_of[destination]
        # Usually all pairs are inside nodes, or all between nodes.
        count = np.count_nonzero(apart)
        if not count:
            return self._inside_routes(source, destination)
        if count == len(apart):
            return self._outside_routes(source, destination)
        inside = self._inside_routes(source[~apart], destination[~apart])
        outside = self._outside_routes(source[apart], destination[apart])
        hops = max(inside.links.shape[1], outside.links.shape[1])
        links = np.full((len(apart), hops), -1, dtype=np.int64)
        latency = np.empty(len(apart))
        for which, routes in ((~apart, inside), (apart, outside)):
            links[which, : routes.links.shape[1]] = routes.links
            latency[which] = routes.latency
        return Routes(links, latency)

    def _inside_routes(self, source: IntArray, destination: IntArray) -> Routes:
        paths = self._tables.between
        row = self._row_of[source]
        column = self.local_of[destination]
        # From (rows, local ranks, hops) to (pairs, hops), with capacity numbers inside the node.
        links = self._in_cluster(paths.links[row, column], source)
        return Routes(links, paths.latency[row, column])

    def _outside_routes(self, source: IntArray, destination: IntArray) -> Routes:
        assert self.fabric is not None, "ranks of different nodes are joined by a fabric"
        out, back = self._tables.out, self._tables.back
        from_row, to_row = self._row_of[source], self._row_of[destination]
        between = self.fabric.routes(self.card_of(source), self.card_of(destination))
        first = self.first_capacity[-1]  # of the fabric
        # Taking rows is many times faster in numpy than indexing.
        hops = [
            self._in_cluster(out.links.take(from_row, axis=0), source),
            _numbered_from(first, between.links),
            self._in_cluster(back.links.take(to_row, axis=0), destination),
        ]
        # Both directions of a card's link cross its joint capacity.
        if self.duplex_limits is not None:
            limits = self.duplex_limits.crossed(between.links)
            hops.append(_numbered_from(first + len(self.fabric.capacities), limits))

        latency = out.latency[from_row] + between.latency + back.latency[to_row]
        # Per pair: out of the source's node, over the fabric, into the destination's node.
        return Routes(np.concatenate(hops, axis=1), latency)

    def _in_cluster(self, links: IntArray, rank: IntArray) -> IntArray:
        """Convert capacity numbers inside each rank's node to numbers of the cluster."""
        return _numbered_from(self.first_capacity[self.node_of[rank], None], links)

    def card_of(self, rank: IntArray) -> IntArray:
        """Return the fabric's port of the network card that each rank uses."""
        return self.first_port[self.node_of[rank]] + self._tables.nic_of[self._row_of[rank]]

    def gpu_name(self, rank: int) -> str:
        """Return the name of the GPU of ``rank`` in the graph, such as ``node3/gpu0``."""
        node = self.node_of[rank]
        kind = self.kinds[self.kind_of[node]]
        return f"node{node}/{kind.gpus[self.local_of[rank]]}"

    def link_name(self, link: int) -> str:
        """Return the display name of a capacity.

        ``node3/gpu0->pcie-switch0`` inside a node, ``node3/nic0->leaf0`` for a link of the fabric,
        ``<->`` for both of its directions together.
        """
        if link < self.first_capacity[-1]:
            # The last node whose capacities begin at or before the link.
            node = int(np.searchsorted(self.first_capacity, link, side="right")) - 1
            kind = self.kinds[self.kind_of[node]]
            return f"node{node}/{kind.names[link - self.first_capacity[node]]}"

        assert self.fabric is not None
        shown, number = self.fabric.ports.shown, link - int(self.first_capacity[-1])
        if number < len(self.fabric.capacities):
            return "->".join(map(shown, self.fabric.link(number)))

        assert self.duplex_limits is not None
        ends = self.duplex_limits.ends[number - len(self.fabric.capacities)]
        return "<->".join(map(shown, ends))

    def graph(self) -> nx.DiGraph[str]:
        """Return the whole cluster as one graph.

        Edges have ``capacity`` (B/s), ``latency`` (s) and ``number``; ``shared`` is the number of
        the capacity that both directions of a card's link share. Devices with a limit of their own
        have its ``number``.
        """
        import networkx as nx

        graph: nx.DiGraph[str] = nx.DiGraph()
        for node, first in enumerate(self.first_capacity[:-1].tolist()):
            inside = self.kinds[self.kind_of[node]]
            for name, data in inside.devices.items():
                # A kind's graph is numbered from 0; the node's capacities begin at `first`.
                limit = {"number": data["number"] + first} if "number" in data else {}
                graph.add_node(f"node{node}/{name}", kind=data["kind"], **limit)
            for a, neighbours in inside.links.items():
                for b, data in neighbours.items():
                    renumbered = {**data, "number": data["number"] + first}
                    graph.add_edge(f"node{node}/{a}", f"node{node}/{b}", **renumbered)
        if self.fabric is not None:
            first, shown = int(self.first_capacity[-1]), self.fabric.ports.shown
            for a, b, data in self.fabric.graph().edges(data=True):
                renumbered = {**data, "number": data["number"] + first}
                shared = self._shared_by_directions(data["number"])
                graph.add_edge(shown(a), shown(b), **renumbered, **shared)
        return graph

    def _shared_by_directions(self, number: int) -> dict[str, int]:
        """Return the capacity that a fabric's link shares with its other direction, if any."""
        if self.fabric is None or self.duplex_limits is None:
            return {}
        limit = int(self.duplex_limits.crossed(np.array([number]))[0])
        if limit < 0:
            return {}
        return {"shared": int(self.first_capacity[-1]) + len(self.fabric.capacities) + limit}


def _accelerators(groups: Sequence[tuple[NodeGraph, int]]) -> tuple[tuple[Gpu, int], ...]:
    """Return the GPU of every rank, as runs of (GPU, number of ranks) in rank order."""
    runs: list[tuple[Gpu, int]] = []
    for kind, count in groups:
        ranks = count * len(kind.gpus)
        # Different nodes may have the same GPU: adjacent ones form one run.
        if runs and runs[-1][0] == kind.node.gpu:
            ranks += runs.pop()[1]
        runs.append((kind.node.gpu, ranks))
    return tuple(runs)


def _starts(sizes: IntArray) -> IntArray:
    """Return where each of several parts begins, and the end of the last."""
    return np.concatenate([[0], np.cumsum(sizes)])


def _grid(fabric: Fabric | None, nodes: int) -> tuple[int, ...] | None:
    """Return the sides of the grid of ``nodes`` nodes whose cards are ports of ``fabric``."""
    if fabric is None or fabric.dims is None:
        return None
    # A node's cards are consecutive along the last dimension.
    cards, *others = fabric.ports.count // nodes, *fabric.dims[:-1]
    along, left = divmod(fabric.dims[-1], cards)
    return None if left else (*others, along)


def _rates(
    groups: Sequence[tuple[NodeGraph, int]], fabric: Fabric | None, limits: DuplexLimits | None
) -> FloatArray:
    """Return the B/s of every capacity, in the order of their numbers."""
    parts = [np.tile(kind.capacities, count) for kind, count in groups]
    if fabric is not None:
        parts.append(fabric.capacities)
    if limits is not None:
        parts.append(limits.capacities)
    return np.concatenate(parts)


def _numbered_from(first: IntArray | int, links: IntArray) -> IntArray:
    """Return ``links`` plus ``first``; -1, the padding of shorter routes, is kept."""
    numbers = links + first
    is_none = links < 0
    if np.count_nonzero(is_none):
        numbers[is_none] = -1
    return numbers


def _stacked(parts: Sequence[Paths], shape: tuple[int, ...]) -> Paths:
    """Concatenate the tables of several kinds.

    They are padded to the longest route, and to ``shape`` local ranks.
    """
    if len(parts) == 1:
        return parts[0]
    rows = sum(len(part.latency) for part in parts)
    longest = max(part.links.shape[-1] for part in parts)
    links = np.full((rows, *shape, longest), -1, dtype=np.int64)
    latency = np.zeros((rows, *shape))
    first = 0
    for part in parts:
        end = first + len(part.latency)
        places = [slice(0, size) for size in part.latency.shape[1:]]
        # What a smaller kind of node lacks stays padding.
        block = (slice(first, end), *places)
        hops = slice(0, part.links.shape[-1])
        links[(*block, hops)] = part.links
        latency[block] = part.latency
        first = end
    return Paths(links, latency)
