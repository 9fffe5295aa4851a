"""Import an InfiniBand fabric found by ibnetdiscover as a scenario with that network.

Cards are assigned to hosts by their descriptions (``gpu01 mlx5_0``). Parallel links between two
switches become one with the sum of their rates. Switches and cables reach the same share of a
link's rate as a card.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import networkx as nx

from dpsim.hardware import links
from dpsim.imports.hostlist import expand_hosts
from dpsim.imports.ib_links import IbFabric, IbLink, Port, parse_ibnetdiscover
from dpsim.imports.network_draft import (
    LATENCY,
    NetworkOptions,
    gbit,
    names_of_hosts,
    set_edges,
    start_draft,
    switch_name,
)
from dpsim.imports.reading import ImportFileError
from dpsim.imports.scenario_draft import Edge, ScenarioDraft

# HOST CARD, where the card's name ends with its number; drivers without a host begin with MT4123.
_OF_HOST = re.compile(r"(?!MT\d)(\S+)\s+(\S*\d)")
_SAME_RATE = 0.05  # relative difference: tools round rates
_TYPICAL = "HDR"  # gives the achievable share and latency of links unknown to the catalogue

Hosts = dict[str, list[Port]]


def scenario_from_ibnetdiscover(
    content: bytes, name: str, options: NetworkOptions, hosts: str | None = None
) -> ScenarioDraft:
    """Return the scenario of an output of ibnetdiscover.

    ``hosts``: a hostlist of the nodes; by default the hosts with the most common number of cards.
    Raises ImportFileError, with the line if there is one.
    """
    fabric = parse_ibnetdiscover(content)
    draft = start_draft(name, "ibnetdiscover", options)
    chosen = _chosen(draft, _hosts(draft, fabric), hosts)
    cards = {
        port: f"node{node}/nic{card}"
        for node, ports in enumerate(chosen.values())
        for card, port in enumerate(ports)
    }
    each = len(next(iter(chosen.values())))
    draft.set("cluster.nodes", len(chosen), names_of_hosts(list(chosen)))
    draft.set("cluster.network.nics_per_node", each, "ports of each host")
    edges = list(_edges(fabric, cards))
    _check_joined(edges, cards)
    set_edges(draft, edges, "as discovered")
    return draft


def _hosts(draft: ScenarioDraft, fabric: IbFabric) -> Hosts:
    """Return the connected ports of each host's cards, both in the order of their names."""
    found: dict[str, list[tuple[str, Port]]] = defaultdict(list)
    ports = {end for link in fabric.links for end in link.ends if end[0].startswith("h-")}
    unnamed = 0
    for port in sorted(ports):
        said = fabric.descriptions.get(port[0], "")
        # A switch that reduces also appears as a card.
        if "Aggregation Node" in said:
            continue
        match = _OF_HOST.fullmatch(said)
        unnamed += match is None
        host, card = (match[1], match[2]) if match else (port[0], "")
        found[host].append((card, port))
    if unnamed:
        draft.ignore(
            f"{unnamed} cards whose description names no host", "each counts as a node of its own"
        )
    if any(end[0].startswith("r-") for link in fabric.links for end in link.ends):
        draft.ignore("routers", "what is in other subnets is not in the file")
    hosts = {}
    for host in sorted(found, key=_natural):
        cards = sorted(found[host], key=lambda one: (_natural(one[0]), one[1]))
        hosts[host] = [port for _, port in cards]
    return hosts


def _chosen(draft: ScenarioDraft, found: Hosts, wanted: str | None) -> Hosts:
    """Return the hosts used as nodes: the given ones, or those with the most common card count.

    Raises ImportFileError for none, an unknown one, or nodes of unequal cards.
    """
    if not found:
        raise ImportFileError("must have cards of hosts (Ca), but has none")
    if wanted is not None:
        names = list(dict.fromkeys(expand_hosts(wanted)))
        unknown = [name for name in names if name not in found]
        if unknown:
            raise ImportFileError(f"must have the host {unknown[0]!r} of --hosts, but lacks it")
        found = {name: found[name] for name in names}
    counts = Counter(len(ports) for ports in found.values())
    if wanted is not None and len(counts) > 1:
        raise ImportFileError(
            f"--hosts: must be hosts of equally many cards, but they have {sorted(counts)}"
        )
    # Hosts for storage or login are fewer, and have fewer cards; ties go to more cards.
    most = max(counts, key=lambda count: (counts[count], count))
    chosen = {host: ports for host, ports in found.items() if len(ports) == most}
    if len(chosen) < len(found):
        others = [host for host in found if host not in chosen]
        draft.ignore(
            f"{len(others)} hosts, {others[0]} among them",
            f"they have not {most} cards as most have; --hosts says which are nodes",
        )
    return chosen


def _edges(fabric: IbFabric, cards: dict[Port, str]) -> Iterator[Edge]:
    """Yield links of the cards, then those between switches."""
    between: dict[tuple[str, str], float] = defaultdict(float)
    part = links()[_TYPICAL].achievable.value
    for link in fabric.links:
        ends = [_end(end, cards) for end in link.ends]
        first, second = ends
        if first is None or second is None:
            continue
        if any(end in cards for end in link.ends):
            yield {"between": sorted([first, second]), **_of_card(link)}
        # Parallel links between two switches become one with the sum of their rates.
        elif first != second:
            pair = (min(first, second), max(first, second))
            between[pair] += link.gbits * 1e9 / 8 * part
    for (a, b), rate in between.items():
        yield {"between": [a, b], "rate": gbit(rate), "latency": LATENCY}


def _end(end: Port, cards: dict[Port, str]) -> str | None:
    """Return the name of an end; None if it is not part of the cluster."""
    return switch_name(end[0]) if end[0].startswith("s-") else cards.get(end)


def _of_card(link: IbLink) -> Edge:
    """Return the catalogue's link of this width and speed, or the link's rate."""
    catalogue = links()
    typical = catalogue[_TYPICAL]
    if link.speed in catalogue:
        known = catalogue[link.speed]
        # A speed names a link of the usual width, which this one may not have.
        if abs(known.rate.value * 8e-9 / link.gbits - 1) < _SAME_RATE:
            return {"link": known.name}
    rate = link.gbits * 1e9 / 8 * typical.achievable.value
    return {"rate": gbit(rate), "latency": f"{typical.latency.value * 1e6:g} us"}


def _check_joined(edges: list[Edge], cards: dict[Port, str]) -> None:
    """Raise ImportFileError if the links do not connect all cards."""
    graph: nx.Graph[str] = nx.Graph([edge["between"] for edge in edges])
    first = next(iter(cards.values()))
    joined = nx.node_connected_component(graph, first)
    apart = [port for port, name in cards.items() if name not in joined]
    if apart:
        raise ImportFileError(
            f"must be one network, but nothing joins {first} and port {apart[0][1]} of "
            f"{apart[0][0]}: --hosts says which hosts are nodes"
        )


def _natural(text: str) -> list[tuple[int, str]]:
    """Return a sort key with numbers by their value: gpu9 before gpu10."""
    pieces = re.split(r"(\d{1,18})", text)
    return [(int(piece), "") if piece.isdecimal() else (0, piece) for piece in pieces]
