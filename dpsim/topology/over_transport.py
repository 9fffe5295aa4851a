"""A cluster over a transport that was measured.

Its links reach what the transport reaches, and its messages take as long.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from dpsim.hardware import Edge, Link, Node, SourcedFraction, SourcedRate, SourcedTime, Transport
from dpsim.topology.config import ClusterConfig
from dpsim.topology.fabrics import CustomEdge
from dpsim.topology.node_graph import NodeGraph

_SOURCE = "the calibration profile"


def cluster_over_transport(config: ClusterConfig, transport: Transport) -> ClusterConfig:
    """``config`` with the links between its nodes as ``transport`` has them; links inside nodes
    stay.

    Each link reaches ``efficiency`` of its nominal rate, and ``duplex`` of that while both
    directions carry. Half of a message's seconds stand on each network card's link and none between
    switches, so that a message between two nodes takes them once, whatever its way. Where copies
    were measured, each GPU's own link towards its host takes what a copy takes.
    """
    changes: dict[str, Any] = {
        "network": config.network.model_copy(update=_network(config, transport))
    }
    if config.node is not None:
        changes["node"] = _with_link(config.node, transport)
    groups = tuple(
        group.model_copy(
            update={
                "node": _with_link(group.node, transport),
                "nic": None if group.nic is None else _over(group.nic, transport),
            }
        )
        for group in config.groups
    )
    return config.model_copy(update={**changes, "groups": groups})


def _network(config: ClusterConfig, transport: Transport) -> dict[str, Any]:
    network = config.network
    changes: dict[str, Any] = {} if transport.duplex is None else {"duplex": transport.duplex}
    if network.nic is not None:
        changes["nic"] = _over(network.nic, transport)
    if transport.message_seconds is not None and "switch_latency" in type(network).model_fields:
        changes["switch_latency"] = 0.0
    edges: tuple[CustomEdge, ...] = getattr(network, "edges", ())
    if edges:
        changes["edges"] = tuple(_edge(edge, transport) for edge in edges)
    return changes


def _edge(edge: CustomEdge, transport: Transport) -> CustomEdge:
    """A network card's edge has half of the latency; of one given by its rate, that is nominal."""
    cards = sum("/nic" in end for end in edge.between)
    latency = (
        edge.seconds if transport.message_seconds is None else cards * transport.message_seconds / 2
    )
    changes: dict[str, Any] = {"latency": latency}
    if edge.link is not None:
        changes["link"] = _over(edge.link, transport)
    elif edge.rate is not None and transport.efficiency is not None:
        changes["rate"] = edge.rate * transport.efficiency
    return edge.model_copy(update=changes)


def _with_link(node: Node, transport: Transport) -> Node:
    cards = node.nics.model_copy(update={"link": _over(node.nics.link, transport)})
    return node.model_copy(update={"nics": cards, "edges": tuple(_copied(node, transport))})


def _copied(node: Node, transport: Transport) -> Iterator[Edge]:
    """The links inside the node; those that are first on a GPU's way to its host as copies over
    them were measured.
    """
    if transport.copy_rate is None:
        yield from node.edges
        return
    graph = NodeGraph(node, host=True)
    first = {frozenset(graph.path(gpu, graph.gpus[-1])[:2]) for gpu in graph.gpus[:-1]}
    rate = SourcedRate.model_validate({"value": f"{transport.copy_rate!r} B/s", "source": _SOURCE})
    latency = SourcedTime.model_construct(value=transport.copy_latency or 0.0, source=_SOURCE)
    for edge in node.edges:
        only = node.model_copy(update={"edges": (edge,)})
        if first.isdisjoint(frozenset(ends[:2]) for ends in only.expand_edges()):
            yield edge
        else:
            yield Edge(
                between=edge.between, link=Link(name=edge.link.name, rate=rate, latency=latency)
            )


def _over(link: Link, transport: Transport) -> Link:
    """The link as the transport uses it."""
    changes: dict[str, Any] = {}
    if transport.efficiency is not None:
        changes["achievable"] = SourcedFraction(value=transport.efficiency, source=_SOURCE)
    if transport.message_seconds is not None:
        changes["latency"] = SourcedTime.model_construct(
            value=transport.message_seconds / 2, source=_SOURCE
        )
    return link.model_copy(update=changes)
