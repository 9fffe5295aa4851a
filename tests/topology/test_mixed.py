"""Clusters of several kinds of nodes."""

import numpy as np
import pytest
from pydantic import ValidationError

from dpsim.base.errors import DpsimError
from dpsim.collectives import algorithm
from dpsim.network import RoundsModel
from dpsim.topology import ClusterConfig, build_cluster

GROUPS = [
    {"nodes": 2, "node": "dgx1-v100"},
    {"nodes": 1, "node": "dgx-a100", "gpus_per_node": 4, "nics_per_node": 2, "nic": "25GbE"},
    {"nodes": 2, "node": "single-gpu", "gpu": "t4"},
]


def mixed(groups=GROUPS, **network):
    return ClusterConfig.model_validate(
        {"groups": groups, "network": {"fabric": "single-switch", **network}}
    )


def test_ranks_go_group_by_group():
    cluster = build_cluster(mixed())
    assert (mixed().ranks, cluster.ranks, cluster.nodes) == (22, 22, 5)
    assert cluster.node_of.tolist() == [0] * 8 + [1] * 8 + [2] * 4 + [3, 4]
    assert cluster.local_of.tolist() == [*range(8), *range(8), *range(4), 0, 0]
    assert [cluster.gpu_name(rank) for rank in (1, 8, 19, 21)] == [
        "node0/gpu3",
        "node1/gpu0",
        "node2/gpu3",
        "node4/gpu0",
    ]


def test_every_rank_has_its_gpu():
    cluster = build_cluster(mixed())
    runs = [(gpu.name, ranks) for gpu, ranks in cluster.accelerators]
    assert runs == [("v100-sxm2-16gb", 16), ("a100-sxm-40gb", 4), ("t4", 2)]
    assert cluster.accelerator_of.tolist() == [0] * 16 + [1] * 4 + [2] * 2


def test_ports_have_the_cards_of_their_node():
    cluster = build_cluster(mixed())
    assert cluster.first_port.tolist() == [0, 4, 8, 10, 11, 12]
    ports = cluster.fabric.ports
    assert ports.node_of.tolist() == [0] * 4 + [1] * 4 + [2] * 2 + [3, 4]
    assert ports.card_of.tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 0, 0]
    edr, twenty_five = ports.rates[0], ports.rates[8]
    assert ports.rates.tolist() == [edr] * 8 + [twenty_five] * 4
    assert edr > 3 * twenty_five


def test_the_groups_card_goes_before_the_networks_and_that_before_the_nodes():
    def rates(groups, **network):
        return build_cluster(mixed(groups, **network)).fabric.ports.rates * 8e-9

    groups = [{"node": "dgx1-v100", "nic": "10GbE"}, {"node": "dgx1-v100", "nics_per_node": 1}]
    np.testing.assert_allclose(rates(groups)[[0, -1]], [9.4, 94], rtol=0.05)
    np.testing.assert_allclose(rates(groups, nic="25GbE")[[0, -1]], [9.4, 23.5], rtol=0.05)
    assert len(rates(groups, nics_per_node=2)) == 3


def test_routes_are_connected_through_both_kinds():
    cluster = build_cluster(mixed(fabric="leaf-spine", nodes_per_leaf=2))
    graph = cluster.graph()
    edges = {data["number"]: (a, b, data["latency"]) for a, b, data in graph.edges(data=True)}
    source, destination = np.divmod(np.arange(22**2), 22)
    keep = source != destination
    routes = cluster.routes(source[keep], destination[keep])
    for a, b, links, latency in zip(
        source[keep], destination[keep], routes.links, routes.latency, strict=True
    ):
        hops = [edges[link] for link in links if link in edges]
        after = {start: end for start, end, _ in hops}
        place = cluster.gpu_name(a)
        for _ in hops:
            place = after[place]
        assert place == cluster.gpu_name(b)
        assert latency == pytest.approx(sum(hop[2] for hop in hops))
        limits = [link for link in links if link >= 0 and link not in edges]
        assert {cluster.link_name(link) for link in limits} <= {*after, *after.values()}


def test_every_capacity_has_a_name_of_its_own_and_its_value():
    cluster = build_cluster(mixed())
    names = [cluster.link_name(link) for link in range(len(cluster.capacities))]
    assert len(set(names)) == len(names)
    for a, b, data in cluster.graph().edges(data=True):
        assert names[data["number"]] == f"{a}->{b.removeprefix(a.split('/')[0] + '/')}"
        assert cluster.capacities[data["number"]] == data["capacity"]


def test_groups_of_one_kind_are_the_same_as_equal_nodes():
    one = build_cluster(
        mixed(
            [{"nodes": 3, "node": "dgx-a100"}, {"nodes": 1, "node": "dgx-a100"}], fabric="fat-tree"
        )
    )
    two = build_cluster(ClusterConfig(nodes=4, node="dgx-a100", network={"fabric": "fat-tree"}))
    schedule = algorithm("ring").schedule(32)
    finishes = [
        RoundsModel(schedule, cluster).finish(np.zeros(32), 10**8).finishes
        for cluster in (one, two)
    ]
    np.testing.assert_array_equal(*finishes)
    assert one.accelerators == two.accelerators
    assert one.per_node == 8


def test_a_ring_through_a_mixed_cluster_goes_at_the_pace_of_its_slowest_card():
    ring = algorithm("ring").schedule(22)
    slow = RoundsModel(ring, build_cluster(mixed())).finish(np.zeros(22), 10**9).finishes.max()
    fast = (
        RoundsModel(ring, build_cluster(mixed(nic="ib-hdr")))
        .finish(np.zeros(22), 10**9)
        .finishes.max()
    )
    assert 0.9 < slow / fast < 1.1  # group 1 keeps its 25GbE cards
    single = (
        RoundsModel(algorithm("ring").schedule(16), build_cluster(mixed(GROUPS[:1])))
        .finish(np.zeros(16), 10**9)
        .finishes.max()
    )
    assert slow > 3 * single


def test_one_group_of_one_node_has_no_fabric():
    assert build_cluster(mixed([{"node": "dgx-a100"}])).fabric is None


def test_a_single_kind_of_gpu_is_returned_and_several_are_refused():
    assert mixed([{"node": "dgx-a100"}, {"node": "aws-p4d"}]).accelerator.name == "a100-sxm-40gb"
    with pytest.raises(
        DpsimError,
        match="must have GPUs of one kind here, but got v100-sxm2-16gb, a100-sxm-40gb, t4",
    ):
        mixed().accelerator  # noqa: B018
    assert build_cluster(mixed()).per_node is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({}, "must have either node (and nodes) or groups, but got neither"),
        (
            {"node": "dgx-a100", "groups": GROUPS},
            "must have either node (and nodes) or groups, but got both groups and node",
        ),
        ({"nodes": 2, "groups": GROUPS}, "got both groups and nodes"),
        ({"gpu": "t4", "groups": GROUPS}, "got both groups and gpu"),
        ({"groups": [{"nodes": 2}]}, "groups.0.node"),
        (
            {"groups": [{"node": "dgx-a100", "gpus_per_node": 9}]},
            "gpus_per_node must be at most the node's 8 GPUs, but got 9",
        ),
        ({"groups": [{"node": "dgx-a101"}]}, "dgx-a100"),
    ],
)
def test_what_it_refuses(fields, message):
    with pytest.raises(ValidationError) as caught:
        ClusterConfig.model_validate(fields)
    assert message in str(caught.value)


def test_it_reads_back_from_its_json():
    for config in (
        mixed(),
        ClusterConfig(nodes=2, node="dgx-a100", network={"fabric": "torus", "dims": [4, 4]}),
    ):
        assert ClusterConfig.model_validate_json(config.model_dump_json()) == config
