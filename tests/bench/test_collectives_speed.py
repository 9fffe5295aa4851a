"""Speed and memory of collectives on large clusters, the building of the cluster counted in."""

import numpy as np
import pytest
from measuring import Growth, in_own_process, seconds
from test_speed import own_starts

from dpsim.collectives import algorithm
from dpsim.network import RoundsModel, named_model, schedule_on
from dpsim.topology import ClusterConfig, UniformSwitch, build_cluster

pytestmark = pytest.mark.bench

NBYTES = 1_000_000_000


def hierarchical(node, nodes):
    """One hierarchical all-reduce by rounds from nothing.

    ``nodes`` nodes of 8 GPUs and 8 cards on one switch, with own starts.
    """
    cluster = build_cluster(ClusterConfig(nodes=nodes, node=node))
    RoundsModel(schedule_on(cluster, algorithm("hierarchical")), cluster).finish(
        own_starts(cluster.ranks), NBYTES
    )


def test_a_hierarchical_all_reduce_by_rounds(measured):
    by_gpus = {
        8 * nodes: in_own_process("test_collectives_speed", "hierarchical", "dgx-h100", nodes)
        for nodes in (2048, 4096, 8192, 16_384)
    }
    growth = Growth.of_processes("GPUs", by_gpus)
    taken, memory = by_gpus[131_072]
    measured(
        "hierarchical all-reduce by rounds",
        "131,072 GPUs",
        taken,
        limit=5,
        memory=memory,
        memory_limit=1000,
        growth=growth,
    )


def all_to_all(ranks):
    """One all-to-all by flows: ranks x (ranks - 1) of them at once."""
    network = UniformSwitch(ranks, 50e9, 500e-9)
    named_model("flows", "all-to-all", network).finish(np.zeros(ranks), 2**20)


def test_an_all_to_all_by_flows(measured):
    by_flows = {
        ranks * (ranks - 1): in_own_process("test_collectives_speed", "all_to_all", ranks)
        for ranks in (256, 512, 1024)
    }
    growth = Growth.of_processes("flows", by_flows)
    taken, memory = by_flows[1024 * 1023]
    measured(
        "all-to-all by flows",
        "1,047,552 flows",
        taken,
        limit=5,
        memory=memory,
        memory_limit=1000,
        growth=growth,
    )


def crowd(nodes):
    """One all-to-all by rounds among all GPUs of ``nodes`` nodes, from nothing."""
    cluster = build_cluster(ClusterConfig(nodes=nodes, node="dgx-h100"))
    named_model("auto", "all-to-all", cluster).finish(np.zeros(cluster.ranks), 2**20)


def test_an_all_to_all_of_4096_gpus_by_rounds(measured):
    by_messages = {
        8 * nodes * (8 * nodes - 1): in_own_process("test_collectives_speed", "crowd", nodes)
        for nodes in (128, 256, 512)
    }
    growth = Growth.of_processes("messages", by_messages)
    taken, memory = by_messages[4096 * 4095]
    measured(
        "all-to-all by rounds, 512 nodes of 8 GPUs",
        "16,773,120 messages",
        taken,
        limit=8,
        memory=memory,
        memory_limit=1000,
        growth=growth,
    )


def fat_tree(nodes):
    """A fat tree of nodes of 8 GPUs and 8 cards; a route from every GPU to its neighbour in the
    ring, and to a random one.
    """
    cluster = build_cluster(
        ClusterConfig(nodes=nodes, node="dgx-h100", network={"fabric": "fat-tree"})
    )
    ranks = np.arange(cluster.ranks)
    cluster.routes(ranks, (ranks + 1) % cluster.ranks)
    cluster.routes(ranks, np.random.default_rng(0).permutation(cluster.ranks))


def test_a_fat_tree_built_and_routed(measured):
    by_gpus = {
        8 * nodes: seconds(lambda count=nodes: fat_tree(count), times=2)
        for nodes in (512, 1024, 2048)
    }
    measured(
        "fat tree built, two routes a GPU",
        "16,384 GPUs",
        by_gpus[16_384],
        limit=10,
        growth=Growth("GPUs", by_gpus),
    )


@pytest.mark.parametrize(
    "name", ["pipelined-tree", "double-binary-tree", "swing", "torus-2d", "auto"]
)
def test_other_algorithms(measured, name):
    def work(ranks):
        network = UniformSwitch(ranks, 50e9, 500e-9)
        named_model("rounds", name, network).finish(np.zeros(ranks), NBYTES)

    by_ranks = {ranks: seconds(lambda count=ranks: work(count)) for ranks in (4096, 8192, 16_384)}
    measured(
        f"{name} by rounds",
        "16,384 ranks",
        by_ranks[16_384],
        limit=5,
        growth=Growth("ranks", by_ranks),
    )
