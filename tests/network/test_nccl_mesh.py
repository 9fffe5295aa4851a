"""NVLinks from GPU to GPU, as NCCL's model reads them off a node: rings over all, or none."""

import pytest

from dpsim.network.libraries.nccl import machine_of
from dpsim.topology import ClusterConfig, build_cluster

NVLINK2, NVLINK3, NVLINK4 = 25e9, 25e9, 25e9


@pytest.mark.parametrize(
    ("node", "gpus", "inside", "rate"),
    [
        ("dgx1-v100", 8, "nvlink-mesh", 6 * NVLINK2),
        ("dgx1-v100", 4, "nvlink-mesh", 4 * NVLINK2),
        ("dgx1-v100", 2, "nvlink-mesh", NVLINK2),
        ("dgx1-p100", 8, "nvlink-mesh", 4 * 20e9),
        ("alps-gh200", 4, "nvlink-mesh", 3 * 6 * NVLINK4),
        ("azure-nc-a100-v4", 2, "nvlink-mesh", 12 * NVLINK3),
    ],
)
def test_a_ring_leaves_every_gpu_by_a_link_of_its_own(node, gpus, inside, rate):
    assert machine(node, gpus) == (inside, pytest.approx(rate))


def test_pairs_that_no_link_joins_are_on_pcie():
    inside, rate = machine("azure-nc-a100-v4", 4)
    assert inside == "pcie"
    assert rate > NVLINK3


def machine(node, gpus):
    config = {"nodes": 1, "node": node, "gpus_per_node": gpus}
    found = machine_of(build_cluster(ClusterConfig.model_validate(config)))
    return found.intra, found.intra_rate
