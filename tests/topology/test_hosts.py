"""CPUs as ends of routes: the same links as in a cluster without them, and room for servers."""

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.topology import ClusterConfig, Hosts, SubNetwork


def config(nodes=3, **changes):
    network = {"fabric": "single-switch", "nic": "25GbE", "nics_per_node": 1}
    return ClusterConfig.model_validate(
        {"nodes": nodes, "node": "dgx1-v100", "network": network, **changes}
    )


def test_gpus_come_before_the_cpu_of_their_node():
    hosts = Hosts(config())
    assert hosts.network.ranks == 3 * 9
    assert hosts.cpus.tolist() == [8, 17, 26]
    assert hosts.workers.tolist() == [*range(8), *range(9, 17), *range(18, 26)]
    assert hosts.node_of.tolist() == [0] * 8 + [1] * 8 + [2] * 8


def test_servers_are_further_nodes_whose_gpus_do_not_work():
    hosts = Hosts(config(), servers=2)
    assert hosts.network.nodes == 5
    assert hosts.cpus.tolist() == [8, 17, 26, 35, 44]
    assert hosts.workers.max() < 27


@pytest.mark.parametrize("fabric", ["single-switch", "leaf-spine", "fat-tree", "ring", "full-mesh"])
def test_capacities_and_routes_of_gpus_equal_those_without_hosts(fabric):
    plain = config(4, network={"fabric": fabric, "nic": "25GbE"})
    cluster, hosts = plain.build(), Hosts(plain)
    links = len(cluster.capacities)
    assert len(hosts.network.capacities) == links
    assert [hosts.network.link_name(link) for link in range(links)] == [
        cluster.link_name(link) for link in range(links)
    ]
    source, destination = np.divmod(np.arange(cluster.ranks**2), cluster.ranks)
    apart = source != destination
    source, destination = source[apart], destination[apart]
    single, here = (
        cluster.routes(source, destination),
        hosts.network.routes(hosts.workers[source], hosts.workers[destination]),
    )
    np.testing.assert_array_equal(here.latency, single.latency)
    for one, other in zip(here.links, single.links, strict=True):
        assert sorted(one[one >= 0]) == sorted(other[other >= 0])


def test_a_gpu_reaches_the_cpu_of_its_node_inside_it_and_another_one_through_the_network():
    hosts = Hosts(config(2))
    routes = hosts.network.routes(np.array([0, 0]), hosts.cpus)
    inside, outside = (
        {hosts.network.link_name(link) for link in row if link >= 0} for row in routes.links
    )
    assert all(name.startswith("node0/") for name in inside)
    assert not any("nic" in name for name in inside)
    assert {"node0/nic0->switch", "switch->node1/nic0"} <= outside


def test_groups_of_several_kinds_keep_their_ends():
    groups = [{"nodes": 1, "node": "dgx1-v100"}, {"nodes": 2, "node": "single-gpu"}]
    mixed = ClusterConfig.model_validate(
        {"groups": groups, "network": {"fabric": "single-switch", "nic": "25GbE"}}
    )
    hosts = Hosts(mixed)
    assert hosts.cpus.tolist() == [8, 10, 12]
    assert hosts.node_of.tolist() == [0] * 8 + [1, 2]


def test_a_fabric_without_room_for_servers_says_so():
    torus = config(
        4, node="single-gpu", network={"fabric": "torus", "dims": [2, 2], "nic": "25GbE"}
    )
    with pytest.raises(DpsimError, match=r"cluster with 3 nodes for servers: .*dims"):
        Hosts(torus, servers=3)


def test_some_ranks_of_a_network_are_a_network():
    hosts = Hosts(config(2))
    among = SubNetwork(hosts.network, hosts.cpus)
    assert among.ranks == 2
    here = among.routes(np.array([0]), np.array([1]))
    there = hosts.network.routes(np.array([8]), np.array([17]))
    np.testing.assert_array_equal(here.links, there.links)
    assert among.link_name(0) == hosts.network.link_name(0)
    assert among.capacities is hosts.network.capacities
