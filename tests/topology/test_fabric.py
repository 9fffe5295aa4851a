"""What holds for every fabric."""

import networkx as nx
import numpy as np
import pytest
from fabrics import FABRICS, every_pair, ports, walked

from dpsim.network import max_min_rates
from dpsim.topology import SingleSwitch, UniformSwitch

fabrics = pytest.mark.parametrize("fabric", FABRICS.values(), ids=FABRICS)


@fabrics
def test_routes_lead_from_port_to_port_and_are_the_quickest_in_the_graph(fabric):
    source, destination = every_pair(fabric.ports.count)
    routes = fabric.routes(source, destination)
    # The custom fabric counts a transfer with the latency; everywhere else all links of a level are
    # alike.
    quickest = dict(nx.all_pairs_dijkstra_path_length(fabric.graph(), weight="latency"))
    for a, b, links, latency in zip(source, destination, routes.links, routes.latency, strict=True):
        places = walked(fabric, links)
        assert (places[0], places[-1]) == (f"port{a}", f"port{b}")
        assert latency == pytest.approx(quickest[f"port{a}"][f"port{b}"])


@fabrics
def test_the_latency_of_a_route_is_the_sum_of_its_links(fabric):
    source, destination = every_pair(fabric.ports.count)
    routes = fabric.routes(source, destination)
    for links, latency in zip(routes.links, routes.latency, strict=True):
        assert latency == pytest.approx(fabric.latencies[links[links >= 0]].sum())


@fabrics
def test_a_route_does_not_depend_on_other_requested_routes(fabric):
    source, destination = every_pair(fabric.ports.count)
    combined = fabric.routes(source, destination)
    for pair in range(0, len(source), 5):
        single = fabric.routes(source[pair : pair + 1], destination[pair : pair + 1])
        assert walked(fabric, single.links[0]) == walked(fabric, combined.links[pair])
        assert single.latency[0] == combined.latency[pair]


@fabrics
def test_every_capacity_is_one_edge_of_the_graph_and_has_its_values(fabric):
    edges = {data["number"]: data for _, _, data in fabric.graph().edges(data=True)}
    assert sorted(edges) == list(range(len(fabric.capacities)))
    assert [edges[number]["capacity"] for number in sorted(edges)] == fabric.capacities.tolist()
    assert [edges[number]["latency"] for number in sorted(edges)] == fabric.latencies.tolist()


@fabrics
def test_links_are_full_duplex(fabric):
    graph = fabric.graph()
    assert all(
        graph.edges[b, a]["capacity"] == data["capacity"] for a, b, data in graph.edges(data=True)
    )


@fabrics
def test_no_route_passes_through_a_port_where_there_are_switches(fabric):
    graph = fabric.graph()
    if any(a.startswith("port") and b.startswith("port") for a, b in graph.edges):
        return  # ports are the routers
    source, destination = every_pair(fabric.ports.count)
    for links in fabric.routes(source, destination).links:
        assert not any(place.startswith("port") for place in walked(fabric, links)[1:-1])


@fabrics
def test_no_routes_for_no_pairs(fabric):
    none = np.empty(0, dtype=np.int64)
    routes = fabric.routes(none, none)
    assert (len(routes.links), len(routes.latency)) == (0, 0)


def test_a_single_switch_is_the_uniform_one_with_the_latency_of_two_links():
    switch, uniform = SingleSwitch(ports(9)), UniformSwitch(9, 10.0, 2.0)
    pairs = every_pair(9)
    assert switch.capacities.tolist() == uniform.capacities.tolist()
    assert switch.routes(*pairs).links.tolist() == uniform.routes(*pairs).links.tolist()
    assert switch.routes(*pairs).latency.tolist() == uniform.routes(*pairs).latency.tolist()


def test_on_a_single_switch_only_the_ends_limit():
    switch = SingleSwitch(ports(9))
    routes = switch.routes(np.array([0, 1, 2]), np.array([3, 3, 4]))
    np.testing.assert_allclose(max_min_rates(routes.links, switch.capacities), [5, 5, 10])
