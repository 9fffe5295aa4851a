"""Between nodes: a switch, and leaves under spines. Ports of 10 B/s, 1 s a link."""

from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from dpsim.network import max_min_rates
from dpsim.topology import LeafSpine, Ports, SingleSwitch

PORTS = Ports(count=64, rate=10.0, latency=1.0)


def leaf_spine(oversubscription=1.0, ports=PORTS):
    return LeafSpine(ports, per_leaf=16, spines=4, oversubscription=oversubscription)


FABRICS = pytest.mark.parametrize("fabric", [SingleSwitch(PORTS), leaf_spine(), leaf_spine(ports=Ports(50, 10.0, 1.0))])


def all_pairs(count):
    source, destination = np.divmod(np.arange(count**2), count)
    return source[source != destination], destination[source != destination]


@FABRICS
def test_routes_are_shortest_paths_of_the_graph(fabric):
    source, destination = all_pairs(fabric.ports.count)
    routes = fabric.routes(source, destination)
    lengths = dict(nx.all_pairs_dijkstra_path_length(fabric.graph(), weight="latency"))
    for a, b, links, latency in zip(source, destination, routes.links, routes.latency, strict=True):
        ends = [fabric.link(link) for link in links if link >= 0]
        assert ends[0][0] == f"port{a}"
        assert ends[-1][1] == f"port{b}"
        assert all(one[1] == following[0] for one, following in pairwise(ends))
        assert latency == len(ends) == lengths[f"port{a}"][f"port{b}"]


@FABRICS
def test_every_capacity_is_one_edge_of_the_graph(fabric):
    numbers = sorted(data["number"] for _, _, data in fabric.graph().edges(data=True))
    assert numbers == list(range(len(fabric.capacities)))


@pytest.mark.parametrize("oversubscription", [1.0, 1.5, 3.0])
def test_a_leaf_has_its_ports_rate_over_the_oversubscription_to_and_from_the_spines(oversubscription):
    graph = leaf_spine(oversubscription).graph()
    for leaf in range(4):
        for spines in (graph.out_edges, graph.in_edges):
            rates = [d["capacity"] for a, b, d in spines(f"leaf{leaf}", data=True) if "spine" in a + b]
            assert len(rates) == 4
            assert sum(rates) == pytest.approx(160 / oversubscription)


def rates(fabric, destination):
    routes = fabric.routes(np.arange(fabric.ports.count), destination)
    return max_min_rates(routes.links, fabric.capacities)


@pytest.mark.parametrize("step", range(1, 64))
def test_without_oversubscription_shifts_and_exchanges_run_at_full_rate(step):
    ports = np.arange(64)
    for destination in ((ports + step) % 64, ports ^ step):
        np.testing.assert_allclose(rates(leaf_spine(), destination), 10.0)


def test_with_oversubscription_traffic_between_leaves_slows_down_and_the_rest_does_not():
    ports = np.arange(64)
    np.testing.assert_allclose(rates(leaf_spine(4.0), ports ^ 1), 10.0)
    np.testing.assert_allclose(rates(leaf_spine(4.0), ports ^ 16), 2.5)
