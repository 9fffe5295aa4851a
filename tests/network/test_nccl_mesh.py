"""Links from GPU to GPU, as NCCL's model uses them: in rings over all, or not at all."""

import numpy as np
import pytest

from dpsim.collectives import Groups
from dpsim.network.libraries.nccl import NcclModel, machine_of
from dpsim.network.libraries.nccl.machine import Bus
from dpsim.topology import ClusterConfig, build_cluster

NVLINK2, NVLINK3, NVLINK4, XGMI = 25e9, 25e9, 25e9, 64e9
SIZE = 2**28


@pytest.mark.parametrize(
    ("node", "gpus", "inside", "rate"),
    [
        ("dgx1-v100", 8, "nvlink-mesh", 6 * NVLINK2),
        ("dgx1-v100", 6, "nvlink-mesh", 2 * NVLINK2),
        ("dgx1-v100", 4, "nvlink-mesh", 4 * NVLINK2),
        ("dgx1-v100", 2, "nvlink-mesh", NVLINK2),
        ("dgx1-p100", 8, "nvlink-mesh", 4 * 20e9),
        ("alps-gh200", 4, "nvlink-mesh", 3 * 6 * NVLINK4),
        ("azure-nc-a100-v4", 2, "nvlink-mesh", 12 * NVLINK3),
        ("mi300x-8gpu", 8, "xgmi", 7 * XGMI),
        ("mi300x-8gpu", 4, "xgmi", 3 * XGMI),
        ("frontier-mi250x", 8, "xgmi", 4 * 50e9),
    ],
)
def test_the_rate_is_that_of_the_rings_that_the_links_close(node, gpus, inside, rate):
    assert machine(node, gpus) == (inside, pytest.approx(rate))


def test_bridged_pairs_that_no_link_joins_meet_on_pcie_by_two_rings():
    model = NcclModel(cluster("azure-nc-a100-v4", 1))
    assert model.machine.intra == "pcie"
    assert model.machine.bus == Bus(sockets=True, one_way=True)
    # Two rings in opposite directions: each way of a bridge carries half of what a rank sends.
    bridges = between_gpus(model)
    assert bridges == pytest.approx(2 * 3 / 4 * SIZE / 2)
    # 51.97 ms at 1 GiB (nccl_tests_2.csv, azure_nc96_topo).
    assert model.seconds_from_common_start(2**30) == pytest.approx(51.97e-3, rel=0.1)


def test_a_gpu_without_its_partner_leaves_pairs_no_rings_of_their_own():
    model = NcclModel(cluster("azure-nc-a100-v4", 1, gpus_per_node=3))
    assert model.machine.bus == Bus(staged=True)


def test_one_gpu_of_each_node_has_what_joins_all_of_them():
    one, all_of_them = (machine_of(cluster("gcp-a4", 2, gpus_per_node=gpus)) for gpus in (1, 8))
    assert (one.intra, one.intra_rate) == (all_of_them.intra, all_of_them.intra_rate)
    assert machine_of(cluster("single-gpu", 2)).intra == "pcie"


@pytest.mark.parametrize(
    ("node", "groups", "rate"),
    [
        ("dgx1-v100", Groups(4), 4 * NVLINK2),
        ("dgx1-v100", Groups(2), 2 * NVLINK2),
        ("mi300x-8gpu", Groups(4), 3 * XGMI),
        ("mi300x-8gpu", Groups(4, across=True), XGMI),
        ("azure-nc-a100-v4", Groups(2), 12 * NVLINK3),
    ],
)
def test_groups_have_the_rings_over_their_own_gpus(node, groups, rate):
    assert machine_of(cluster(node, 1), groups).intra_rate == rate


@pytest.mark.parametrize("node", ["mi300x-8gpu", "mi325x-8gpu", "mi355x-8gpu"])
@pytest.mark.parametrize("algorithm", ["ring", "tree"])
@pytest.mark.parametrize("nodes", [2, 3])
def test_channels_between_nodes_load_all_links_of_a_full_mesh_alike(node, algorithm, nodes):
    model = NcclModel(cluster(node, nodes), restriction=algorithm)
    loads = between_gpus(model)
    assert len(loads) == nodes * 8 * 7
    # Each channel leaves a node by one of its eight GPUs, and reaches the other seven by a link.
    sent = 2 * (8 * nodes - 1) / (8 * nodes) if algorithm == "ring" else 2
    assert loads == pytest.approx(sent * SIZE * 7 / 8 / 7)


def test_two_rings_over_six_gpus_are_as_fast_as_two_links():
    """GPUs 4 and 5 are neighbours of one other each: every ring takes a way between them."""
    model = NcclModel(cluster("dgx1-v100", 1, gpus_per_node=6))
    sent = 2 * 5 / 6 * SIZE
    loads = model.loads(SIZE)
    assert loads.sum() == pytest.approx(6 * sent)
    assert (loads / model.cluster.capacities).max() == pytest.approx(sent / (2 * 0.9 * NVLINK2))


def test_a_message_through_a_third_gpu_loads_both_links():
    model = NcclModel(cluster("dgx1-v100", 1, gpus_per_node=5))
    crossed = model.loads(SIZE) / (2 * 4 / 5 * SIZE)
    # Five hops of each ring, of which that to GPU 4, or from it, passes through GPU 0.
    assert crossed.sum() == pytest.approx(6)
    assert model.machine.intra_rate == 2 * NVLINK2


def test_two_mi300x_nodes_reach_what_was_measured():
    """22.68 ms at 4 GiB on two BM.GPU.MI300X.8 (nccl_tests_2.csv, oci_mi300x_2n)."""
    took = NcclModel(cluster("oci-bm-gpu-mi300x-8", 2)).seconds_from_common_start(2**32)
    assert took == pytest.approx(22.68e-3, rel=0.1)


def between_gpus(model):
    """Bytes on each direction of a link from GPU to GPU."""
    loads = model.loads(SIZE)
    ends = [model.cluster.link_name(link).split("/")[-1].split("->") for link in range(len(loads))]
    direct = [len(pair) == 2 and all(end.startswith("gpu") for end in pair) for pair in ends]
    return np.asarray(loads[direct])


def machine(node, gpus):
    found = machine_of(cluster(node, 1, gpus_per_node=gpus))
    return found.intra, found.intra_rate


def cluster(node, nodes, **more):
    return build_cluster(ClusterConfig.model_validate({"nodes": nodes, "node": node, **more}))
