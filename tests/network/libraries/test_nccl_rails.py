"""What NCCL sends by which cards: a ring enters a node by the card that it left another by."""

import numpy as np
import pytest

from dpsim.network import named_model
from dpsim.topology import ClusterConfig, build_cluster

SIZE = 2**28


def cluster(node, nodes, **network):
    given = {"nodes": nodes, "node": node, "network": network}
    return build_cluster(ClusterConfig.model_validate(given))


def by_nccl(cluster, operation):
    model = named_model("auto", "auto", cluster, operation=operation, library="nccl")
    return model.finish(np.zeros(cluster.ranks), SIZE)


def through_spines(cluster, outcome):
    spine = ["spine" in cluster.link_name(link) for link in range(len(outcome.loads))]
    return float(outcome.loads[spine].sum())


@pytest.mark.parametrize("operation", ["all-gather", "reduce-scatter", "broadcast", "all-to-all"])
@pytest.mark.parametrize("oversubscription", [1, 64])
def test_rails_are_as_good_as_one_switch(operation, oversubscription):
    rails = cluster("dgx-h100", 4, fabric="rail-optimised", oversubscription=oversubscription)
    switch = cluster("dgx-h100", 4, fabric="single-switch")
    found, one = by_nccl(rails, operation), by_nccl(switch, operation)
    assert through_spines(rails, found) == 0
    assert found.finishes.max() == pytest.approx(one.finishes.max(), rel=1e-12)


def test_of_an_odd_number_of_nodes_the_last_and_the_first_meet_across_rails():
    rails = cluster("dgx-h100", 3, fabric="rail-optimised")
    found = by_nccl(rails, "all-gather")
    # Of the three ways between nodes one crosses, up to a spine and down, with every ring.
    assert through_spines(rails, found) == pytest.approx(2 * SIZE * 23 / 24)


def test_without_nvlink_each_sends_to_each_by_its_own_card():
    rails = cluster("aws-g6e-48xlarge", 4, fabric="rail-optimised")
    found = by_nccl(rails, "all-to-all")
    # Of four cards on as many rails three are not the receiver's.
    between = SIZE / 32 * 32 * 24
    assert through_spines(rails, found) == pytest.approx(2 * between * 3 / 4)


def test_a_reduce_is_a_broadcast_the_other_way_round():
    network = cluster("dgx-h100", 2, fabric="single-switch")
    reduce, broadcast = (
        named_model("auto", "auto", network, operation=operation, library="nccl")
        for operation in ("reduce", "broadcast")
    )
    assert reduce.traffic(SIZE).sent.tolist() == broadcast.traffic(SIZE).received.tolist()
    assert reduce.traffic(SIZE).sent[0] == 0
    assert reduce.seconds_from_common_start(SIZE) == pytest.approx(
        broadcast.seconds_from_common_start(SIZE), rel=0.1
    )
