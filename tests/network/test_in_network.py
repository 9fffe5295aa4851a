"""Switches that reduce: links of 1 B/s, messages of 12 bytes."""

import numpy as np
import pytest
from small_networks import UnequalSwitch

from dpsim.base.errors import DpsimError
from dpsim.collectives import algorithm
from dpsim.network import (
    Background,
    Conditions,
    InNetworkModel,
    MessageCosts,
    RoundsModel,
    named_model,
)
from dpsim.topology import ClusterConfig, UniformSwitch, build_cluster


class Nodes(UnequalSwitch):
    """Four ranks on two nodes."""

    per_node = 2


def cluster(*, reduces):
    network = {"fabric": "single-switch", "in_network_reduction": reduces}
    return build_cluster(ClusterConfig(nodes=4, node="dgx-a100", network=network))


def test_each_rank_sends_its_vector_once_and_everyone_waits_for_the_last():
    model = InNetworkModel(UniformSwitch(4, 1.0, 3.0), MessageCosts(overhead=2.0, gamma=100.0))
    outcome = model.finish(np.array([0.0, 7.0, 1.0, 2.0]), 12)
    assert outcome.finishes.tolist() == [7 + 2 + 3 + 12] * 4
    assert outcome.loads.tolist() == [12] * 8
    assert model.traffic(12).sent.tolist() == model.traffic(12).received.tolist() == [12] * 4


def test_ranks_of_a_node_share_the_work():
    # Half of the vector to the neighbour and back by a ring, 6 s each; in between a half through
    # the switches, 6 s.
    model = InNetworkModel(Nodes(np.ones(8)), itemsize=1)
    outcome = model.finish(np.zeros(4), 12)
    assert outcome.finishes.tolist() == [18] * 4
    assert outcome.loads.tolist() == [18] * 8
    assert model.traffic(12).total == 4 * 18


def test_inside_one_node_there_is_no_switch_to_ask():
    network = build_cluster(ClusterConfig(nodes=1, node="dgx-a100"))
    starts, nbytes = np.zeros(8), 2**20
    ring = RoundsModel(algorithm("ring").schedule(8), network).finish(starts, nbytes)
    found = InNetworkModel(network).finish(starts, nbytes)
    np.testing.assert_allclose(found.finishes, ring.finishes, rtol=1e-12)
    np.testing.assert_array_equal(found.loads, ring.loads)


@pytest.mark.parametrize("ranks", [1, 2, 16, 64])
def test_its_bound_is_half_of_what_schedules_need(ranks):
    network, nbytes = UniformSwitch(ranks, 1e9, 0.0), 1 << 30
    assert InNetworkModel(network).finish(np.zeros(ranks), nbytes).finishes.max() == (
        nbytes / 1e9 if ranks > 1 else 0
    )


def test_it_asks_for_switches_that_can():
    assert isinstance(named_model("auto", "in-network", cluster(reduces=True)), InNetworkModel)
    for network in (cluster(reduces=False), UniformSwitch(4, 1.0, 0.0)):
        with pytest.raises(DpsimError, match="algorithm in-network must have switches that reduce"):
            named_model("auto", "in-network", network)


def test_it_asks_for_nodes_of_equal_numbers_of_gpus():
    groups = [{"node": "dgx-a100"}, {"node": "dgx-a100", "gpus_per_node": 4}]
    network = {"fabric": "single-switch", "in_network_reduction": True}
    uneven = build_cluster(ClusterConfig.model_validate({"groups": groups, "network": network}))
    with pytest.raises(DpsimError, match="must have equal numbers of GPUs per node"):
        named_model("auto", "in-network", uneven)


@pytest.mark.parametrize(
    ("kind", "conditions"),
    [("flows", None), ("closed-form", None), ("auto", Conditions((Background(0, 1, 1e9),)))],
)
def test_it_is_timed_only_by_rounds(kind, conditions):
    with pytest.raises(DpsimError, match="network model of in-network must be rounds or auto"):
        named_model(kind, "in-network", cluster(reduces=True), conditions=conditions)


def test_on_a_large_vector_it_beats_every_schedule_between_nodes():
    network, starts, nbytes = cluster(reduces=True), np.zeros(32), 1 << 30
    hierarchical = (
        named_model("rounds", "hierarchical", network).finish(starts, nbytes).finishes.max()
    )
    assert (
        named_model("rounds", "in-network", network).finish(starts, nbytes).finishes.max()
        < hierarchical
    )
