"""Leaves under spines, rails and fat trees, against their definitions."""

import numpy as np
import pytest
from fabrics import between, every_pair, fat_tree, leaf_spine, ports, rails, switches, walked

from dpsim.network import max_min_rates
from dpsim.topology import FatTreeConfig, LeafSpineConfig, Ports, Spread
from dpsim.topology.fabrics.fat_tree import least_k

BY_DESTINATION = Spread(None)


def rates(fabric, destination):
    routes = fabric.routes(np.arange(fabric.ports.count), destination)
    return max_min_rates(routes.links, fabric.capacities)


def starts(*words):
    return lambda name: name.startswith(words)


@pytest.mark.parametrize("oversubscription", [1.0, 1.5, 3.0])
def test_a_leaf_has_its_ports_rate_over_the_oversubscription_to_and_from_the_spines(
    oversubscription,
):
    fabric = leaf_spine(oversubscription=oversubscription)
    for leaf in range(4):
        for ends in (("spine", f"leaf{leaf}"), (f"leaf{leaf}", "spine")):
            count, rate = between(fabric, *(starts(end) for end in ends))
            assert (count, rate) == (4, pytest.approx(160 / oversubscription))


def test_a_leaf_that_is_not_full_has_the_links_of_a_full_one():
    fabric = leaf_spine(50)
    assert fabric.leaves == 4
    assert between(fabric, starts("leaf3"), starts("spine")) == (4, 160)


def test_bisection_of_a_leaf_spine_is_half_the_ports_rate_over_the_oversubscription():
    fabric = leaf_spine(oversubscription=2.0)
    assert between(fabric, starts("leaf0", "leaf1"), starts("spine"))[1] == 32 * 10 / 2


@pytest.mark.parametrize("step", [1, 2, 7, 16, 17, 33, 48, 63])
def test_by_destination_shifts_and_exchanges_run_at_full_rate(step):
    number = np.arange(64)
    for destination in ((number + step) % 64, number ^ step):
        np.testing.assert_allclose(rates(leaf_spine(spread=BY_DESTINATION), destination), 10.0)


def test_hashed_flows_collide_on_some_uplink():
    slow = rates(leaf_spine(), (np.arange(64) + 16) % 64)
    assert slow.min() < 10


def test_with_oversubscription_traffic_between_leaves_slows_down_and_the_rest_does_not():
    number = np.arange(64)
    np.testing.assert_allclose(rates(leaf_spine(oversubscription=4.0), number ^ 1), 10.0)
    np.testing.assert_allclose(
        rates(leaf_spine(oversubscription=4.0, spread=BY_DESTINATION), number ^ 16), 2.5
    )


def test_leaves_hold_whole_nodes_of_different_size():
    uneven = Ports(7, 10.0, 1.0, np.array([2, 1, 1, 3]))
    fabric = LeafSpineConfig(fabric="leaf-spine", nodes_per_leaf=2).fabric_of(uneven)
    assert fabric.leaf_of.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert between(fabric, starts("leaf0"), starts("spine"))[1] == 40  # as the busier leaf


def test_rail_r_joins_card_r_of_all_nodes():
    fabric = rails(nodes=6, cards=4)
    assert switches(fabric) == {f"rail{r}" for r in range(4)} | {f"spine{s}" for s in range(4)}
    for port in range(24):
        assert list(fabric.graph().successors(f"port{port}")) == [f"rail{port % 4}"]


def test_equal_cards_are_one_switch_apart_and_others_three():
    fabric = rails(nodes=6, cards=4)
    source, destination = every_pair(24)
    hops = (fabric.routes(source, destination).links >= 0).sum(axis=1)
    np.testing.assert_array_equal(hops, np.where(source % 4 == destination % 4, 2, 4))


def test_more_nodes_than_a_rail_holds_have_rails_of_their_own():
    fabric = rails(nodes=7, cards=2, nodes_per_rail=3)
    assert fabric.leaf_of.tolist() == [0, 1, 0, 1, 0, 1, 2, 3, 2, 3, 2, 3, 4, 5]
    assert len((fabric.routes(np.array([0]), np.array([6])).links >= 0)[0].nonzero()[0]) == 4


def test_rails_have_their_ports_rate_over_the_oversubscription_to_the_spines():
    assert between(rails(nodes=6, cards=4, oversubscription=3), starts("rail2"), starts("spine"))[
        1
    ] == pytest.approx(20)


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_a_k_ary_fat_tree_has_five_quarters_k_squared_switches_of_k_links(k):
    fabric = fat_tree(k)
    graph = fabric.graph()
    assert fabric.ports.count == k**3 // 4
    assert len(switches(fabric)) == 5 * k**2 // 4
    assert sum(name.startswith("core") for name in graph) == (k // 2) ** 2
    assert {graph.out_degree(name) for name in switches(fabric)} == {k}
    assert graph.number_of_edges() == 2 * 3 * k**3 // 4


@pytest.mark.parametrize("k", [4, 6])
def test_a_fat_tree_has_full_bisection(k):
    fabric = fat_tree(k)
    half = {f"core{core}" for core in range((k // 2) ** 2)}
    pods = {f"aggregation{a}" for a in range(k**2 // 4)}  # those of the first k/2 pods
    assert between(fabric, pods.__contains__, half.__contains__)[1] == fabric.ports.count / 2 * 10


def test_routes_of_a_fat_tree_climb_no_higher_than_they_must():
    fabric = fat_tree(4)
    source, destination = every_pair(16)
    hops = (fabric.routes(source, destination).links >= 0).sum(axis=1)
    expected = np.where(
        source // 2 == destination // 2, 2, np.where(source // 4 == destination // 4, 4, 6)
    )
    np.testing.assert_array_equal(hops, expected)


def test_one_route_through_a_fat_tree():
    route = fat_tree(4, spread=BY_DESTINATION).routes(np.array([0]), np.array([13])).links[0]
    assert walked(fat_tree(4), route) == [
        "port0",
        "edge0",
        "aggregation1",
        "core2",
        "aggregation7",
        "edge6",
        "port13",
    ]


@pytest.mark.parametrize("step", [4, 8, 12])
def test_by_destination_a_fat_tree_does_not_block_shifts_by_whole_pods(step):
    np.testing.assert_allclose(
        rates(fat_tree(4, spread=BY_DESTINATION), (np.arange(16) + step) % 16), 10.0
    )


@pytest.mark.parametrize(
    ("count", "k"), [(1, 2), (2, 2), (3, 4), (16, 4), (17, 6), (54, 6), (16384, 42)]
)
def test_the_least_tree_that_fits(count, k):
    assert least_k(count) == k
    assert FatTreeConfig(fabric="fat-tree").fabric_of(ports(count)).k == k
