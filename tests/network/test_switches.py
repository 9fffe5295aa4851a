"""What goes into a switch comes out of it."""

import numpy as np
import pytest

from dpsim.collectives import algorithm, algorithm_names
from dpsim.network import RoundsModel, schedule_on
from dpsim.topology import ClusterConfig, build_cluster

NETWORKS = [
    {"fabric": "single-switch"},
    {"fabric": "leaf-spine", "nodes_per_leaf": 2, "spines": 2},
    {"fabric": "fat-tree"},
    {"fabric": "torus", "dims": [2, 2]},
    {"fabric": "dragonfly"},
]


@pytest.mark.parametrize("network", NETWORKS, ids=lambda network: network["fabric"])
@pytest.mark.parametrize("name", algorithm_names())
def test_bytes_in_are_bytes_out_of_everything_but_gpus(network, name):
    cluster = build_cluster(
        ClusterConfig(nodes=4, node="dgx1-v100", network={**network, "nics_per_node": 1})
    )
    loads = (
        RoundsModel(schedule_on(cluster, algorithm(name)), cluster)
        .finish(np.zeros(cluster.ranks), 10_000_000)
        .loads
    )
    graph = cluster.graph()
    carried = {}
    for a, b, number in graph.edges(data="number"):
        carried.setdefault(a, [0.0, 0.0])[1] += loads[number]
        carried.setdefault(b, [0.0, 0.0])[0] += loads[number]
    passed = 0
    for device, (came, went) in carried.items():
        if graph.nodes[device].get("kind") != "gpu":
            assert came == pytest.approx(went, rel=1e-12, abs=1e-6), device
            passed += came > 0
    assert passed > 4
