"""Clusters: routes from GPU to GPU, names of links, and what they cost."""

import numpy as np
import pytest
from fabrics import every_pair

from dpsim.collectives import algorithm
from dpsim.network import RoundsModel
from dpsim.topology import ClusterConfig, UniformSwitch, build_cluster


def cluster(**fields):
    return build_cluster(ClusterConfig.model_validate(fields))


CLUSTERS = pytest.mark.parametrize(
    "cluster",
    [
        cluster(nodes=1, node="dgx1-v100"),
        cluster(nodes=3, node="dgx1-p100"),
        cluster(
            nodes=3,
            node="pcie-8gpu",
            gpus_per_node=5,
            network={"fabric": "single-switch", "nics_per_node": 3},
        ),
        cluster(
            nodes=5,
            node="dgx-a100",
            network={"fabric": "leaf-spine", "nodes_per_leaf": 2, "spines": 3},
        ),
        cluster(
            nodes=4,
            node="single-gpu",
            network={"fabric": "leaf-spine", "nodes_per_leaf": 1, "oversubscription": 2},
        ),
        cluster(nodes=4, node="dgx1-v100", network={"fabric": "rail-optimised"}),
        cluster(nodes=3, node="gcp-a3-mega", network={"fabric": "fat-tree"}),
        cluster(nodes=12, node="tpu-v3", network={"fabric": "torus", "dims": [2, 2, 3]}),
        cluster(nodes=5, node="aws-g4dn", network={"fabric": "dragonfly", "routers": 2}),
        cluster(nodes=3, node="p40-8gpu", network={"fabric": "full-mesh"}),
    ],
    ids=[
        "node",
        "switch",
        "pcie",
        "leaves",
        "singles",
        "rails",
        "fat-tree",
        "torus",
        "dragonfly",
        "mesh",
    ],
)


@CLUSTERS
def test_routes_are_connected_paths_of_the_graph_and_take_the_sum_of_their_latencies(cluster):
    graph = cluster.graph()
    edges = {data["number"]: (a, b, data["latency"]) for a, b, data in graph.edges(data=True)}
    source, destination = every_pair(cluster.ranks)
    routes = cluster.routes(source, destination)
    for rank, other, links, latency in zip(
        source, destination, routes.links, routes.latency, strict=True
    ):
        after = {edges[link][0]: edges[link][1] for link in links if link in edges}
        assert walk(after, gpu(cluster, rank)) == gpu(cluster, other)
        assert latency == pytest.approx(sum(edges[link][2] for link in links if link in edges))
        limited = {cluster.link_name(link) for link in links if link >= 0 and link not in edges}
        passed = {*after, *after.values()}
        assert limited == {device for device in passed if device.split("/")[-1].startswith("cpu")}


def gpu(cluster, rank):
    node, local = divmod(int(rank), cluster.per_node)
    return f"node{node}/{cluster.node.gpus[local]}"


def walk(after, place):
    """Where the links lead from ``place``; every link is used."""
    for _ in range(len(after)):
        place = after[place]
    return place


@CLUSTERS
def test_a_route_does_not_depend_on_other_requested_routes(cluster):
    source, destination = every_pair(cluster.ranks)
    combined = cluster.routes(source, destination)
    for number in range(0, len(source), 7):
        single = cluster.routes(source[number : number + 1], destination[number : number + 1])
        assert [link for link in combined.links[number] if link >= 0] == [
            link for link in single.links[0] if link >= 0
        ]
        assert combined.latency[number] == single.latency[0]


@CLUSTERS
def test_every_capacity_has_a_name_and_the_edges_of_the_graph_carry_it(cluster):
    names = [cluster.link_name(link) for link in range(len(cluster.capacities))]
    assert len(set(names)) == len(names)
    for a, b, data in cluster.graph().edges(data=True):
        assert names[data["number"]] == f"{a}->{b.removeprefix(a.split('/')[0] + '/')}"
        assert cluster.capacities[data["number"]] == data["capacity"]


def test_names_of_links():
    switched = cluster(nodes=2, node="dgx1-v100")
    names = {switched.link_name(link) for link in range(len(switched.capacities))}
    assert {"node0/gpu0->gpu1", "node1/cpu1", "node1/nic3->switch", "switch->node0/nic2"} <= names


def test_ranks_go_node_by_node_in_ring_order():
    both = cluster(nodes=2, node="dgx1-v100")
    assert both.ranks == 16
    assert [gpu(both, rank) for rank in (0, 1, 8, 9)] == [
        "node0/gpu0",
        "node0/gpu3",
        "node1/gpu0",
        "node1/gpu3",
    ]


def test_the_networks_card_replaces_the_nodes_own():
    ten = cluster(nodes=2, node="single-gpu", network={"fabric": "single-switch", "nic": "10GbE"})
    own = cluster(nodes=2, node="single-gpu")
    assert ten.fabric.ports.rates[0] < own.fabric.ports.rates[0] == own.capacities[-1]


def test_one_node_has_no_fabric():
    single = cluster(nodes=1, node="dgx-a100")
    assert single.fabric is None
    assert len(single.capacities) == len(single.node.capacities)


def test_a_ring_of_single_gpu_nodes_is_a_ring_on_a_uniform_switch():
    singles = cluster(nodes=5, node="single-gpu")
    latency = singles.routes(np.array([0]), np.array([1])).latency[0]
    switch = UniformSwitch(5, singles.fabric.ports.rates[0], latency)
    starts = np.array([0.0, 3e-3, 1e-3, 0.0, 2e-3])
    schedule = algorithm("ring").schedule(5)
    found, expected = (
        RoundsModel(schedule, network).finish(starts, 10**8).finishes
        for network in (singles, switch)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_eight_gpus_behind_one_card_share_it():
    pair = cluster(nodes=2, node="pcie-8gpu")
    outside = pair.routes(np.arange(8), np.arange(8, 16))
    card = next(
        link for link in range(len(pair.capacities)) if pair.link_name(link) == "node0/nic0->switch"
    )
    assert (outside.links == card).any(axis=1).all()


def test_the_uniform_switch_names_its_links():
    switch = UniformSwitch(8, 1.0, 0.0)
    assert [switch.link_name(link) for link in (5, 8, 15)] == [
        "rank5->switch",
        "switch->rank0",
        "switch->rank7",
    ]
    assert switch.routes(np.array([5]), np.array([7])).links.tolist() == [[5, 15]]
