"""Knobs of links: rate and latency between nodes and inside them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dpsim.base.config import Config
from dpsim.base.units import RATE, TIME, exact
from dpsim.hardware import Link, Node
from dpsim.scenario import Scenario
from dpsim.studies.explain.knob import Change, Options
from dpsim.topology import ClusterConfig

ONE_NODE = "all GPUs are in one node: nothing crosses the network"
SOURCE = "changed to see what it does"

Json = dict[str, Any]


def network_bandwidth(scenario: Scenario) -> Options:
    """Double the rate of every link between nodes."""
    if _inside_one_node(scenario):
        return ONE_NODE
    if scenario.testbed is not None:
        return (Change("2x NIC rate", _testbed(scenario, 2.0), 2.0),)
    if scenario.cluster.network.links_file is not None:
        return "the rates of the links stand in a GraphML file"
    values = {**_network(scenario.cluster, rate=2.0), **_cards(scenario.cluster, rate=2.0)}
    return (Change("2x NIC rate", values, 2.0),)


def latency(scenario: Scenario) -> Options:
    """Halve the latency of every link, also inside nodes, or of a measured transport."""
    measured = None if scenario.profile is None else scenario.profile.measured_transport
    if measured is not None and measured.latency:
        profile = _json(scenario.calibration)
        # The measured latency replaces those of the catalogue.
        profile["parameters"]["latency"]["value"] /= 2
        return (Change("half the latency", {"calibration": profile}, 0.5),)
    if scenario.testbed is not None:
        return "the testbed's latency is this machine's"
    cluster = scenario.cluster
    values = _nodes(cluster, latency=0.5)
    if not _inside_one_node(scenario):
        if cluster.network.links_file is not None:
            return "the latencies of the links stand in a GraphML file"
        values |= {**_network(cluster, latency=0.5), **_cards(cluster, latency=0.5)}
    return (Change("half the latency", values, 0.5),)


def node_bandwidth(scenario: Scenario) -> Options:
    """Double the rates of the links and other traffic limits inside nodes."""
    if scenario.testbed is not None:
        return "each rank of the testbed has a host to itself"
    values = _nodes(scenario.cluster, rate=2.0)
    return (Change("2x the links inside nodes", values, 2.0),)


def of_each(cluster: ClusterConfig, field: str, value: Callable[[Any], Json]) -> Json:
    """Return the values that set ``field`` of the cluster, or of each of its groups."""
    if cluster.node is not None:
        return {f"cluster.{field}": value(cluster)}
    groups = enumerate(cluster.groups)
    return {f"cluster.groups[{number}].{field}": value(group) for number, group in groups}


def _scale(link: Link, rate: float, latency: float) -> Json:
    """Return ``link`` with its rate or latency multiplied."""
    changed = {"value": exact(link.rate.value * rate, RATE), "source": SOURCE}
    if rate != 1.0:
        return {**_json(link), "rate": changed}
    changed["value"] = exact(link.latency.value * latency, TIME)
    return {**_json(link), "latency": changed}


def _json(model: object) -> Json:
    """Return a part of a scenario as plain values, without defaults."""
    assert isinstance(model, Config)
    values: Json = model.model_dump(mode="json", exclude_unset=True)
    return values


def _inside_one_node(scenario: Scenario) -> bool:
    nodes = sum(part.nodes for part in scenario.cluster.parts)
    servers = scenario.strategy.aggregation.server_hosts(nodes)
    return nodes == 1 and not any(host >= nodes for host in servers)


def _cards(cluster: ClusterConfig, rate: float = 1.0, latency: float = 1.0) -> Json:
    """Return the values that scale the link of every network card."""
    # A group's card takes precedence over the network's, and that over the node's.
    own = cluster.network.nic
    if cluster.node is not None:
        link = own or cluster.node.nics.link
        return {"cluster.network.nic": _scale(link, rate, latency)}
    return of_each(
        cluster,
        "nic",
        lambda group: _scale(group.nic or own or group.node.nics.link, rate, latency),
    )


def _network(cluster: ClusterConfig, *, rate: float = 1.0, latency: float = 1.0) -> Json:
    """Return the values that scale the network's rates and latencies, except the cards'."""
    network = cluster.network
    values: Json = {}
    for names, factor, dimension in (
        (network.own_rates, rate, RATE),
        (network.own_latencies, latency, TIME),
    ):
        for name in names if factor != 1.0 else ():
            now = getattr(network, name)
            # Unset values follow the cards.
            if now is not None:
                values[f"cluster.network.{name}"] = exact(now * factor, dimension)
    if network.listed_edges:
        values["cluster.network.edges"] = [
            _edge(edge, rate, latency) for edge in network.listed_edges
        ]
    return values


def _edge(edge: Any, rate: float, latency: float) -> Json:
    """Return an edge of a custom network with its rate and latency scaled."""
    values = _json(edge)
    if edge.link is not None:
        values["link"] = _scale(edge.link, rate, latency)
    else:
        # An edge without a catalogue link states its own rate.
        values["rate"] = exact(edge.rate * rate, RATE)
    if edge.latency is not None:
        values["latency"] = exact(edge.latency * latency, TIME)
    return values


def _nodes(cluster: ClusterConfig, rate: float = 1.0, latency: float = 1.0) -> Json:
    """Return the values that scale links and other limits inside every kind of node."""
    return of_each(cluster, "node", lambda part: _node(part.node, rate, latency))


def _node(node: Node, rate: float, latency: float) -> Json:
    limits = {
        kind: {"value": exact(limit.value * rate, RATE), "source": SOURCE}
        for kind, limit in node.capacities.items()
    }
    edges = [{**_json(edge), "link": _scale(edge.link, rate, latency)} for edge in node.edges]
    bus = _scale(node.nic_bus, rate, latency)
    return {**_json(node), "edges": edges, "nic_bus": bus, "capacities": limits}


def _testbed(scenario: Scenario, factor: float) -> Json:
    """Return the values that multiply the testbed's limits."""
    testbed = scenario.testbed
    assert testbed is not None
    rates = [exact(rate * factor, RATE) for rate in testbed.rates]
    values: Json = {"testbed.rate": rates if isinstance(testbed.rate, tuple) else rates[0]}
    if testbed.racks is not None:
        values["testbed.racks.uplink"] = exact(testbed.racks.uplink * factor, RATE)
    return values
