"""The cluster that a testbed stands for, and a cluster over a measured transport."""

import numpy as np
import pytest

from dpsim.hardware.calibration import Transport
from dpsim.topology import (
    ClusterConfig,
    TestbedConfig,
    build_cluster,
    cluster_over_transport,
    goodput_fraction,
)

GOODPUT = goodput_fraction(9000)


def routes(config, source, destination):
    cluster = build_cluster(config)
    found = cluster.routes(np.array([source]), np.array([destination]))
    links = found.links[0][found.links[0] >= 0]
    return [cluster.link_name(link) for link in links], cluster.capacities[links], found.latency[0]


def test_hosts_are_nodes_of_one_rank_whose_links_carry_what_headers_leave_of_the_rate():
    names, rates, latency = routes(TestbedConfig(hosts=3, rate="100 Mbit/s").cluster(), 0, 2)
    assert names[2:4] == ["node0/nic0->switch", "switch->node2/nic0"]
    assert rates[2:4] == pytest.approx([12.5e6 * GOODPUT] * 2)
    assert rates.min() == rates[2], "a host's own memory is no limit"
    assert latency == pytest.approx(125e-6)


def test_each_host_may_have_its_own_rate():
    cluster = build_cluster(TestbedConfig(hosts=2, rate=["100 Mbit/s", "50 Mbit/s"]).cluster())
    assert cluster.fabric.ports.rates == pytest.approx([12.5e6 * GOODPUT, 6.25e6 * GOODPUT])


def test_two_racks_are_joined_by_one_link():
    config = TestbedConfig(
        hosts=4, rate="200 Mbit/s", racks={"racks": [[0, 3], [1, 2]], "uplink": "50 Mbit/s"}
    ).cluster()
    names, rates, latency = routes(config, 0, 1)
    assert names[2:5] == ["node0/nic0->rack0", "rack0->rack1", "rack1->node1/nic0"]
    assert rates[2:5] == pytest.approx(np.array([25e6, 6.25e6, 25e6]) * GOODPUT)
    assert latency == pytest.approx(125e-6)
    assert "rack0->rack1" not in routes(config, 0, 3)[0]


def test_more_racks_meet_in_the_middle():
    racks = {"racks": [[0], [1], [2]], "uplink": "50 Mbit/s"}
    names, _, _ = routes(TestbedConfig(hosts=3, rate="200 Mbit/s", racks=racks).cluster(), 0, 2)
    assert names[2:6] == ["node0/nic0->rack0", "rack0->core", "core->rack2", "rack2->node2/nic0"]


TRANSPORT = Transport(latency=1e-4, overhead=1e-5, efficiency=0.5)


@pytest.mark.parametrize(
    "config",
    [
        TestbedConfig(hosts=4).cluster(),
        TestbedConfig(hosts=4, rate=["100 Mbit/s"] * 3 + ["50 Mbit/s"]).cluster(),
        TestbedConfig(hosts=4, racks={}).cluster(),
        ClusterConfig(nodes=4, node="single-gpu"),
        ClusterConfig(
            nodes=4, node="single-gpu", network={"fabric": "single-switch", "nic": "ethernet-10g"}
        ),
        ClusterConfig(
            nodes=4,
            node="single-gpu",
            network={"fabric": "leaf-spine", "nodes_per_leaf": 2, "spines": 1},
        ),
        ClusterConfig(
            nodes=2,
            node="single-gpu",
            network={
                "fabric": "custom",
                "edges": [{"between": ["node*/nic0", "a"], "rate": "1 GB/s", "latency": 0}],
            },
        ),
        ClusterConfig(
            nodes=6,
            node="single-gpu",
            network={
                "fabric": "dragonfly",
                "routers": 2,
                "ports_per_router": 1,
                "local_rate": "2 GB/s",
                "global_rate": "1 GB/s",
            },
        ),
    ],
)
def test_over_a_transport_links_have_its_efficiency_and_a_message_its_time(config):
    last = config.ranks - 1
    names, nominal, _ = routes(cluster_over_transport(config, Transport(efficiency=1.0)), 0, last)
    there, rates, latency = routes(cluster_over_transport(config, TRANSPORT), 0, last)
    assert there == names
    inside = latency - TRANSPORT.message_seconds
    assert 0 <= inside < 5e-6, "what the node's own buses take"
    slowest = nominal.argmin()
    assert rates[slowest] == pytest.approx(nominal[slowest] / 2)
    assert rates[0] == nominal[0], "links inside nodes stay"


def test_a_file_of_links_is_read_and_reaches_what_the_transport_does(tmp_path):
    edges = "".join(
        f'<edge source="node{node}/nic0" target="a"><data key="r">1 GB/s</data>'
        '<data key="l">0 s</data></edge>'
        for node in range(2)
    )
    (tmp_path / "net.graphml").write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="r" for="edge" attr.name="rate" attr.type="string"/>'
        '<key id="l" for="edge" attr.name="latency" attr.type="string"/>'
        '<graph edgedefault="undirected"><node id="node0/nic0"/><node id="node1/nic0"/>'
        f'<node id="a"/>{edges}</graph></graphml>'
    )
    network = {"fabric": "custom", "graphml": str(tmp_path / "net.graphml"), "nics_per_node": 1}
    config = ClusterConfig(nodes=2, node="single-gpu", network=network)
    names, rates, latency = routes(cluster_over_transport(config, TRANSPORT), 0, 1)
    assert rates[names.index("node0/nic0->a")] == 0.5e9
    assert latency == pytest.approx(TRANSPORT.message_seconds, abs=5e-6)
