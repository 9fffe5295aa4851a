"""Routes around cut links cross what any route crosses, and loads are those of the way taken."""

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.collectives import algorithm
from dpsim.network import Conditions, FlowsModel, LinkChange
from dpsim.topology import ClusterConfig, build_cluster, routes_avoiding

MB = 1_000_000


def leaf_spine(duplex):
    """Four nodes on two leaves with two spines between them."""
    network = {
        "fabric": "leaf-spine",
        "nic": "10GbE",
        "nics_per_node": 1,
        "duplex": duplex,
        "nodes_per_leaf": 2,
        "spines": 2,
    }
    return build_cluster(
        ClusterConfig.model_validate({"nodes": 4, "node": "single-gpu", "network": network})
    )


def numbers(cluster, pattern):
    return [link for link in range(len(cluster.capacities)) if pattern in cluster.link_name(link)]


def up_link_of(cluster, source, destination):
    """The link from a leaf to a spine that this pair's route crosses."""
    links = cluster.routes(np.array([source]), np.array([destination])).links[0]
    (up,) = [
        link
        for link in links[links >= 0].tolist()
        if cluster.link_name(link).startswith("leaf") and "->spine" in cluster.link_name(link)
    ]
    return up


@pytest.mark.parametrize("duplex", [1.0, 0.6])
def test_a_detour_crosses_the_same_cards_and_devices(duplex):
    cluster = leaf_spine(duplex)
    source, destination = np.array([0]), np.array([3])
    before = cluster.routes(source, destination).links[0]
    cut = up_link_of(cluster, 0, 3)
    after = routes_avoiding(cluster, source, destination, frozenset([cut])).links[0]

    def kept(links):
        """All but what is between the leaves."""
        names = {cluster.link_name(link) for link in links[links >= 0].tolist()}
        return {name for name in names if "spine" not in name}

    assert kept(after) == kept(before)
    assert any("<->" in name for name in kept(after)) == (duplex < 1)
    assert cut not in after


def test_what_is_left_of_a_transfer_is_carried_by_the_new_way():
    """A broadcast from rank 0 sends 5 MB to rank 2 first. Half a way through the spine is cut."""
    cluster = leaf_spine(1.0)
    schedule = algorithm("tree", "broadcast").schedule(4)
    whole = FlowsModel(schedule, cluster).finish(np.zeros(4), 5 * MB)
    cut = up_link_of(cluster, 0, 2)
    assert whole.loads[cut] > 0
    late = LinkChange(0.5 * 5 * MB / 1.25e9, cut, 0.0)
    after = FlowsModel(schedule, cluster, conditions=Conditions((), (late,)))
    loads = after.finish(np.zeros(4), 5 * MB).loads
    spines = numbers(cluster, "->spine")
    assert 0 < loads[cut] < whole.loads[cut]
    assert loads[spines].sum() == pytest.approx(whole.loads[spines].sum())


def test_nothing_is_carried_by_a_link_that_was_cut_before():
    cluster = leaf_spine(1.0)
    cut = up_link_of(cluster, 0, 3)
    ring = algorithm("all-to-all").schedule(4)
    loads = FlowsModel(ring, cluster, conditions=Conditions((), (LinkChange(0.0, cut, 0.0),)))
    assert loads.finish(np.zeros(4), MB).loads[cut] == 0


def test_a_dragonfly_by_destination_spreads_otherwise_than_by_hash():
    """With several links between two groups, all flows to one port take the same."""

    def routes(routing):
        network = {
            "fabric": "dragonfly",
            "nic": "10GbE",
            "nics_per_node": 1,
            "groups": 2,
            "routers": 2,
            "ports_per_router": 4,
            "global_links": 2,
            "routing": routing,
        }
        cluster = build_cluster(
            ClusterConfig.model_validate({"nodes": 16, "node": "single-gpu", "network": network})
        )
        pairs = np.array([(a, b) for a in range(8) for b in range(8, 16)])
        return cluster, pairs, cluster.routes(pairs[:, 0], pairs[:, 1]).links

    cluster, pairs, hashed = routes("ecmp")
    _, _, by_destination = routes("destination")
    assert not np.array_equal(hashed, by_destination)
    # From one router, all flows to a port leave the group by the same link.
    for port in range(8, 16):
        to_port = by_destination[(pairs[:, 0] < 4) & (pairs[:, 1] == port)]
        between = [
            {link for link in links.tolist() if is_between_routers(cluster, link)}
            for links in to_port
        ]
        assert all(links == between[0] for links in between)


def is_between_routers(cluster, link):
    return link >= 0 and cluster.link_name(link).count("router") == 2


def test_no_way_leads_through_a_device_that_is_cut():
    """The GPUs of a g4dn are connected only by its processor."""
    cluster = build_cluster(ClusterConfig.model_validate({"nodes": 1, "node": "aws-g4dn-metal"}))
    (processor,) = numbers(cluster, "cpu0")[-1:]
    assert cluster.link_name(processor) == "node0/cpu0"
    with pytest.raises(DpsimError, match="no path remains"):
        routes_avoiding(cluster, np.array([0]), np.array([1]), frozenset([processor]))


def test_no_way_leads_over_what_both_directions_share_where_that_is_cut():
    cluster = leaf_spine(0.6)
    (shared,) = numbers(cluster, "node0/nic0<->")
    with pytest.raises(DpsimError, match="no path remains"):
        routes_avoiding(cluster, np.array([0]), np.array([3]), frozenset([shared]))
