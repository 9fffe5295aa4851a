import pytest
from pydantic import ValidationError

from dpsim.topology import ClusterConfig, LeafSpine, SingleSwitch, build_cluster


def test_only_the_node_must_be_named():
    config = ClusterConfig(node="dgx1-v100")
    assert (config.nodes, config.ranks, config.accelerator.name) == (1, 8, "v100-sxm2-16gb")


def test_the_gpus_can_be_others_than_the_nodes_own():
    config = ClusterConfig(nodes=3, node="pcie-8gpu", gpu="p40", gpus_per_node=2)
    assert (config.ranks, config.accelerator.name) == (6, "p40")
    assert build_cluster(config).ranks == 6


@pytest.mark.parametrize(("fabric", "kind"), [("single-switch", SingleSwitch), ("leaf-spine", LeafSpine)])
def test_fabrics_by_name(fabric, kind):
    assert type(build_cluster(ClusterConfig(nodes=2, node="single-gpu", network={"fabric": fabric})).fabric) is kind


def test_leaves_hold_whole_nodes():
    network = {"fabric": "leaf-spine", "nodes_per_leaf": 2, "nics_per_node": 4}
    fabric = build_cluster(ClusterConfig(nodes=5, node="dgx1-v100", network=network)).fabric
    assert (fabric.per_leaf, fabric.leaves, fabric.ports.count) == (8, 3, 20)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"node": "dgx1-v100", "gpus_per_node": 9}, "gpus_per_node must be at most the node's 8 GPUs, but got 9"),
        ({"node": "dgx1-v100", "gpus_per_node": 0}, "greater than 0"),
        ({"node": "dgx1-v100", "nodes": 0}, "greater than 0"),
        ({"node": "dgx1-v10"}, "dgx1-v100"),
        ({"node": "dgx1-v100", "gpu": "v1000"}, "v100"),
        ({"node": "dgx1-v100", "network": {"fabric": "leafspine"}}, "'single-switch', 'leaf-spine'"),
        ({"node": "dgx1-v100", "network": {"fabric": "leaf-spine", "oversubscription": 0.5}}, "greater than or equal to 1"),
        ({"node": "dgx1-v100", "network": {"fabric": "single-switch", "oversubscription": 2}}, "Extra inputs are not permitted"),
        ({"node": "dgx1-v100", "network": {"fabric": "single-switch", "nics_per_node": 0}}, "greater than 0"),
        ({"node": "dgx1-v100", "network": {"fabric": "single-switch", "nic": "25 Gb"}}, "nic"),
    ],
)
def test_what_it_refuses(fields, message):
    with pytest.raises(ValidationError) as caught:
        ClusterConfig.model_validate(fields)
    assert message in str(caught.value)
