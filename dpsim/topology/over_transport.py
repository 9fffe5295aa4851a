"""A cluster over a measured transport, which sets rates of links and times of messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpsim.hardware import Edge, Link, Node, SourcedFraction, SourcedRate, SourcedTime, Transport
from dpsim.topology.config import ClusterConfig
from dpsim.topology.fabrics import CustomEdge
from dpsim.topology.node_graph import NodeGraph

_SOURCE = "the calibration profile"


def cluster_over_transport(config: ClusterConfig, transport: Transport) -> ClusterConfig:
    """Return ``config`` with the links between its nodes as measured in ``transport``.

    Each link reaches ``efficiency`` of its nominal rate, and ``duplex`` of that while both
    directions carry data. Half of a message's time is on each network card's link and none between
    switches, so that a message between two nodes takes it once on any path. Links inside nodes do
    not change, except that each GPU's link towards its host takes the rate and latency of copies if
    those were measured.
    """
    network = config.network.model_copy(update=_network(config, transport))
    changes: dict[str, Any] = {"network": network}
    if config.node is not None:
        changes["node"] = _node(config.node, transport)
    groups = []
    for group in config.groups:
        nic = None if group.nic is None else _measured(group.nic, transport)
        node = _node(group.node, transport)
        groups.append(group.model_copy(update={"node": node, "nic": nic}))
    changes["groups"] = tuple(groups)
    return config.model_copy(update=changes)


def _network(config: ClusterConfig, transport: Transport) -> dict[str, Any]:
    network = config.network
    changes: dict[str, Any] = {}
    if transport.duplex is not None:
        changes["duplex"] = transport.duplex
    if network.nic is not None:
        changes["nic"] = _measured(network.nic, transport)
    # All of a message's time is on the cards' links, so none is left for switches.
    if transport.message_seconds is not None:
        changes |= dict.fromkeys(network.own_latencies, 0.0)
    if transport.efficiency is not None:
        rates = {name: getattr(network, name) for name in network.own_rates}
        # A rate that is not set follows the cards'.
        changes |= {
            name: rate * transport.efficiency for name, rate in rates.items() if rate is not None
        }
    edges = network.listed_edges
    if edges:
        # Edges of a file are now listed, so the file is not read again.
        changes |= {"edges": tuple(_edge(edge, transport) for edge in edges), "graphml": None}
    return changes


def _edge(edge: CustomEdge, transport: Transport) -> CustomEdge:
    """Return an edge with half of the message time per network card, and its rate adjusted."""
    latency = edge.seconds
    # An edge with a window is a long link and keeps its own delay.
    if transport.message_seconds is not None and edge.window is None:
        cards = sum("/nic" in end for end in edge.between)
        latency = cards * transport.message_seconds / 2
    changes: dict[str, Any] = {"latency": latency}
    if edge.link is not None:
        changes["link"] = _measured(edge.link, transport)
    elif edge.rate is not None and transport.efficiency is not None:
        changes["rate"] = edge.rate * transport.efficiency
    return edge.model_copy(update=changes)


def _node(node: Node, transport: Transport) -> Node:
    link = _measured(node.nics.link, transport)
    cards = node.nics.model_copy(update={"link": link})
    edges = tuple(_copied(node, transport))
    return node.model_copy(update={"nics": cards, "edges": edges})


def _copied(node: Node, transport: Transport) -> Iterator[Edge]:
    """Yield the links inside the node, with the measured rates of copies to and from the host."""
    if transport.copy_rate is None:
        yield from node.edges
        return
    graph = NodeGraph(node, host=True)
    *gpus, host = graph.gpus
    # Unordered pairs, because edges may name either end first.
    first = {frozenset(graph.path(gpu, host)[:2]) for gpu in gpus}
    rate = SourcedRate.model_validate({"value": f"{transport.copy_rate!r} B/s", "source": _SOURCE})
    latency = SourcedTime.model_construct(value=transport.copy_latency or 0.0, source=_SOURCE)
    for edge in node.edges:
        # An edge of the description can be many links, so expand it alone.
        alone = node.model_copy(update={"edges": (edge,)})
        links = [frozenset(ends[:2]) for ends in alone.expand_edges()]
        if first.isdisjoint(links):
            yield edge
        else:
            # The measured rate is the achieved one, so no efficiency is applied to it. Each link of
            # the edge gets it.
            as_copied = Link(name=edge.link.name, rate=rate, latency=latency)
            yield Edge(between=edge.between, link=as_copied)


def _measured(link: Link, transport: Transport) -> Link:
    """Return ``link`` with the rate and latency that the transport reaches on it."""
    changes: dict[str, Any] = {}
    if transport.efficiency is not None:
        changes["achievable"] = SourcedFraction(value=transport.efficiency, source=_SOURCE)
    if transport.message_seconds is not None:
        half = transport.message_seconds / 2  # the other card's link has the other half
        changes["latency"] = SourcedTime.model_construct(value=half, source=_SOURCE)
    return link.model_copy(update=changes)
