from time import perf_counter

import numpy as np
import pytest
from pydantic import ValidationError

from dpsim.base.errors import DpsimError
from dpsim.topology import (
    ClusterConfig,
    Dragonfly,
    FatTree,
    FullMesh,
    LeafSpine,
    SingleSwitch,
    Torus,
    build_cluster,
)


def test_only_the_node_must_be_named():
    config = ClusterConfig(node="dgx1-v100")
    assert (config.nodes, config.ranks, config.accelerator.name) == (1, 8, "v100-sxm2-16gb")


def test_the_gpus_can_be_others_than_the_nodes_own():
    config = ClusterConfig(nodes=3, node="pcie-8gpu", gpu="p40", gpus_per_node=2)
    assert (config.ranks, config.accelerator.name) == (6, "p40")
    assert build_cluster(config).ranks == 6


@pytest.mark.parametrize(
    ("fabric", "kind"),
    [
        ("single-switch", SingleSwitch),
        ("leaf-spine", LeafSpine),
        ("fat-tree", FatTree),
        ("rail-optimised", LeafSpine),
        ("torus", Torus),
        ("ring", Torus),
        ("full-mesh", FullMesh),
        ("dragonfly", Dragonfly),
    ],
)
def test_fabrics_by_name(fabric, kind):
    assert (
        type(
            build_cluster(
                ClusterConfig(nodes=2, node="single-gpu", network={"fabric": fabric})
            ).fabric
        )
        is kind
    )


def test_leaves_hold_whole_nodes():
    network = {"fabric": "leaf-spine", "nodes_per_leaf": 2, "nics_per_node": 4}
    fabric = build_cluster(ClusterConfig(nodes=5, node="dgx1-v100", network=network)).fabric
    assert (np.bincount(fabric.leaf_of).tolist(), fabric.leaves, fabric.ports.count) == (
        [8, 8, 4],
        3,
        20,
    )


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"node": "dgx1-v100", "gpus_per_node": 9},
            "gpus_per_node must be at most the node's 8 GPUs, but got 9",
        ),
        ({"node": "dgx1-v100", "gpus_per_node": 0}, "greater than 0"),
        ({"node": "dgx1-v100", "nodes": 0}, "greater than 0"),
        ({"node": "dgx1-v10"}, "dgx1-v100"),
        ({"node": "dgx1-v100", "gpu": "v1000"}, "v100"),
        (
            {"node": "dgx1-v100", "network": {"fabric": "leafspine"}},
            "'single-switch', 'leaf-spine'",
        ),
        (
            {"nodes": 4, "node": "single-gpu", "network": {"fabric": "torus", "dims": [2, 3]}},
            "dims must multiply to the 4 network cards of all nodes, but [2, 3] make 6",
        ),
        (
            {"nodes": 9, "node": "dgx1-v100", "network": {"fabric": "fat-tree", "k": 4}},
            "k must be at least 6 for 36 network cards (room for k^3/4), but got 4",
        ),
        ({"node": "dgx1-v100", "network": {"fabric": "fat-tree", "k": 5}}, "multiple of 2"),
        (
            {"nodes": 5, "node": "dgx1-v100", "network": {"fabric": "dragonfly", "groups": 2}},
            "groups x routers x ports_per_router must be at least the 20 network cards, but got 2 "
            "x 4 x 2 = 16",
        ),
        (
            {
                "nodes": 40,
                "node": "dgx1-v100",
                "network": {"fabric": "dragonfly", "global_links": 1},
            },
            "routers x global_links must be at least 19, a link to each other group, but got 4 x "
            "1 = 4",
        ),
        (
            {"nodes": 3000, "node": "single-gpu", "network": {"fabric": "full-mesh"}},
            "a full mesh must have at most 2,048 network cards, but got 3,000",
        ),
        (
            {"node": "dgx1-v100", "network": {"fabric": "leaf-spine", "ecmp_seed": -1}},
            "greater than or equal to 0",
        ),
        (
            {"node": "dgx1-v100", "network": {"fabric": "leaf-spine", "routing": "valiant"}},
            "'ecmp' or 'destination'",
        ),
        (
            {"node": "dgx1-v100", "network": {"fabric": "leaf-spine", "oversubscription": 0.5}},
            "greater than or equal to 1",
        ),
        (
            {"node": "dgx1-v100", "network": {"fabric": "single-switch", "oversubscription": 2}},
            "Extra inputs are not permitted",
        ),
        (
            {"node": "dgx1-v100", "network": {"fabric": "single-switch", "nics_per_node": 0}},
            "greater than 0",
        ),
        ({"node": "dgx1-v100", "network": {"fabric": "single-switch", "nic": "25 Gb"}}, "nic"),
    ],
)
def test_what_it_refuses(fields, message):
    with pytest.raises(ValidationError) as caught:
        ClusterConfig.model_validate(fields)
    assert message in str(caught.value)


def test_one_node_needs_no_network_that_fits():
    assert (
        build_cluster(
            ClusterConfig(node="single-gpu", network={"fabric": "torus", "dims": [4, 4]})
        ).fabric
        is None
    )


def test_a_cluster_knows_whether_its_switches_reduce():
    plain = ClusterConfig(nodes=2, node="dgx-h100")
    sharp = ClusterConfig(
        nodes=2, node="dgx-h100", network={"fabric": "fat-tree", "in_network_reduction": True}
    )
    assert (build_cluster(plain).reduces, build_cluster(sharp).reduces) == (False, True)
    assert plain.node.in_network_reduction == ("nvswitch",)


def test_a_pod_of_tpus_is_a_torus_of_chips():
    pod = build_cluster(
        ClusterConfig(nodes=1024, node="tpu-v3", network={"fabric": "torus", "dims": [32, 32]})
    )
    routes = pod.routes(np.array([0, 0]), np.array([1, 33]))
    assert [pod.link_name(int(link)) for link in routes.links[0] if link >= 0] == [
        "node0/gpu0->nic0",
        "node0/nic0->node1/nic0",
        "node1/nic0->gpu0",
    ]
    assert routes.latency[1] == 2 * routes.latency[0] > 0
    assert pod.fabric.ports.rate == pytest.approx(0.9 * 656e9 / 8)


@pytest.mark.parametrize(
    ("nodes", "network", "grid"),
    [
        (8, {"fabric": "torus", "dims": [4, 2]}, (4, 2)),
        (8, {"fabric": "torus", "dims": [2, 8], "nics_per_node": 2}, (2, 4)),
        (4, {"fabric": "torus", "dims": [4, 3], "nics_per_node": 3}, (4, 1)),
        (4, {"fabric": "torus", "dims": [2, 4], "nics_per_node": 2}, (2, 2)),
        (2, {"fabric": "torus", "dims": [4, 1], "nics_per_node": 2}, None),
        (6, {"fabric": "ring"}, (6,)),
        (8, {"fabric": "single-switch"}, None),
    ],
)
def test_nodes_of_one_gpu_stand_in_the_grid_of_their_cards(nodes, network, grid):
    network = {"nics_per_node": 1, "nic": "25GbE", **network}
    config = ClusterConfig(nodes=nodes, node="single-gpu", network=network)
    assert build_cluster(config).grid == grid


def test_a_fat_tree_of_16384_gpus_is_built_and_routed_at_once():
    """The bound is ten times what it takes on a slow core."""
    begin = perf_counter()
    tree = build_cluster(ClusterConfig(nodes=2048, node="dgx-a100", network={"fabric": "fat-tree"}))
    ranks = np.arange(tree.ranks)
    ring = tree.routes(ranks, np.roll(ranks, -1))
    spread = tree.routes(ranks, np.random.default_rng(0).permutation(tree.ranks))
    assert (tree.ranks, tree.fabric.k) == (16384, 42)
    assert perf_counter() - begin < 3
    assert ring.links.max() < len(tree.capacities)
    assert (np.bincount(spread.links[spread.links >= tree.first_capacity[-1]]) <= 8).all()


def test_another_number_of_nodes():
    torus = ClusterConfig(nodes=4, node="tpu-v2", network={"fabric": "torus", "dims": [2, 2]})
    assert torus.with_nodes(1).ranks == 1
    with pytest.raises(
        DpsimError,
        match=r"cluster with 6 nodes: dims must multiply to the 6 network cards of all nodes",
    ):
        torus.with_nodes(6)
    with pytest.raises(DpsimError, match=r"cluster\.groups: must be changed group by group"):
        ClusterConfig(groups=[{"node": "tpu-v2"}]).with_nodes(2)


@pytest.mark.parametrize(
    ("nodes", "output"),
    [(2**20 + 1, "less than or equal to 1048576"), (2**64, "less than or equal to 1048576")],
)
def test_numbers_of_nodes_that_no_machine_could_count(nodes, output):
    with pytest.raises(ValidationError, match=output):
        ClusterConfig(nodes=nodes, node="tpu-v2")
