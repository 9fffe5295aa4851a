"""Speed and memory of collectives on large clusters, the building of the cluster counted in."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from test_speed import own_starts, seconds

from dpsim.collectives import algorithm
from dpsim.network import RoundsModel, named_model, schedule_on
from dpsim.topology import ClusterConfig, UniformSwitch, build_cluster

pytestmark = pytest.mark.bench

NBYTES = 1_000_000_000


def hierarchical(node, nodes):
    """One hierarchical all-reduce by rounds from nothing: ``nodes`` nodes of 8 GPUs and 8 cards on one switch, with own starts."""
    cluster = build_cluster(ClusterConfig(nodes=nodes, node=node))
    model = RoundsModel(schedule_on(cluster, algorithm("hierarchical")), cluster)
    return model.finish(own_starts(cluster.ranks), NBYTES)


@pytest.mark.parametrize("node", ["dgx-a100", "dgx-h100"])
def test_a_hierarchical_all_reduce_by_rounds(measured, node):
    before = None
    for nodes in (2048, 4096, 8192):
        taken = seconds(lambda count=nodes: hierarchical(node, count), times=2)
        limit = 5 if nodes == 8192 else None
        measured(f"hierarchical all-reduce of {8 * nodes:,} GPUs, {node}", taken, "s", limit=limit, before=before)
        before = taken


MEMORY = """
import resource, sys
sys.path.insert(0, sys.argv[1])
import test_collectives_speed
test_collectives_speed.hierarchical("dgx-h100", 8192)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_the_memory_of_a_hierarchical_all_reduce_of_65536_gpus(measured):
    # A shell in between keeps this process's peak out of the figure, as in test_speed.
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", MEMORY, str(Path(__file__).parent)]
    peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured("hierarchical all-reduce of 65,536 GPUs, whole process", int(peak) * 1024 / 1e6, "MB", limit=1000)


def all_to_all(ranks):
    """One all-to-all by flows: ranks x (ranks - 1) of them at once."""
    network = UniformSwitch(ranks, 50e9, 500e-9)
    named_model("flows", "all-to-all", network).finish(np.zeros(ranks), 2**20)


def test_an_all_to_all_by_flows(measured):
    before = None
    for ranks in (256, 512, 1024):
        taken = seconds(lambda count=ranks: all_to_all(count), times=1)
        limit = 5 if ranks == 1024 else None
        measured(f"all-to-all of {ranks:,} ranks by flows", taken, "s", limit=limit, before=before)
        before = taken


def test_the_memory_of_an_all_to_all_by_flows(measured):
    code = MEMORY.replace('hierarchical("dgx-h100", 8192)', "all_to_all(1024)")
    command = ["sh", "-c", '"$@"; exit $?', "sh", sys.executable, "-c", code, str(Path(__file__).parent)]
    peak = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    measured("all-to-all of 1,024 ranks by flows, whole process", int(peak) * 1024 / 1e6, "MB", limit=1000)


def test_a_fat_tree_built_and_routed(measured):
    """2,048 nodes of 8 GPUs and 8 cards; a route from every GPU to its neighbour in the ring, and to a random one."""

    def work():
        network = {"fabric": "fat-tree"}
        cluster = build_cluster(ClusterConfig(nodes=2048, node="dgx-h100", network=network))
        ranks = np.arange(cluster.ranks)
        cluster.routes(ranks, (ranks + 1) % cluster.ranks)
        cluster.routes(ranks, np.random.default_rng(0).permutation(cluster.ranks))

    measured("fat tree of 16,384 GPUs, built and routed", seconds(work, times=1), "s", limit=10)


@pytest.mark.parametrize("name", ["pipelined-tree", "double-binary-tree", "swing", "torus-2d", "auto"])
def test_other_algorithms_of_16384_ranks(measured, name):
    network = UniformSwitch(16_384, 50e9, 500e-9)

    def work():
        named_model("rounds", name, network).finish(np.zeros(network.ranks), NBYTES)

    measured(f"{name} of 16,384 ranks", seconds(work, times=1), "s", limit=5)
