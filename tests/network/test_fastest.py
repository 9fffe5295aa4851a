"""Algorithm auto: the fastest by rounds at each size."""

import numpy as np
import pytest

from dpsim.base.errors import UnknownNameError
from dpsim.collectives import algorithm, algorithm_names
from dpsim.network import FlowsModel, RoundsModel, named_model
from dpsim.network.fastest import is_quick
from dpsim.topology import ClusterConfig, UniformSwitch, build_cluster

SWITCH = UniformSwitch(8, 50e9, 1e-6)
SIZES = [4, 2**10, 2**20, 2**30]
AT_ONCE = np.zeros(8)


def seconds(name, nbytes):
    return RoundsModel(algorithm(name).schedule(8), SWITCH).finish(AT_ONCE, nbytes).finishes.max()


@pytest.mark.parametrize("nbytes", SIZES)
def test_it_is_as_fast_as_the_fastest_and_says_which(nbytes):
    model = named_model("rounds", "auto", SWITCH)
    assert model.finish(AT_ONCE, nbytes).finishes.max() == min(
        seconds(name, nbytes) for name in algorithm_names()
    )
    assert (
        seconds(model.algorithm_for(nbytes), nbytes) == model.finish(AT_ONCE, nbytes).finishes.max()
    )


def test_small_vectors_go_in_one_round_and_large_ones_in_parts():
    model = named_model("auto", "auto", SWITCH)
    assert [model.algorithm_for(nbytes) for nbytes in (4, 2**30)] == [
        "all-to-all",
        "halving-doubling",
    ]


def test_it_sends_what_the_chosen_one_sends():
    model = named_model("auto", "auto", SWITCH)
    assert model.traffic(4).busiest == 7 * 4
    assert model.traffic(2**30).busiest == 2 * 7 * 2**27


def test_flows_time_what_rounds_have_chosen():
    network, starts = (
        build_cluster(ClusterConfig(nodes=2, node="dgx-a100")),
        np.linspace(0, 1e-4, 16),
    )
    model = named_model("flows", "auto", network)
    chosen = FlowsModel(algorithm(model.algorithm_for(4096)).schedule(16, 8), network)
    np.testing.assert_array_equal(
        model.finish(starts, 4096).finishes, chosen.finish(starts, 4096).finishes
    )


def test_switches_that_reduce_take_part():
    network = {"fabric": "single-switch", "in_network_reduction": True}
    model = named_model(
        "auto", "auto", build_cluster(ClusterConfig(nodes=4, node="dgx-a100", network=network))
    )
    assert model.algorithm_for(2**30) == "in-network"


def test_a_requested_flow_model_is_kept():
    network = {"fabric": "single-switch", "in_network_reduction": True}
    model = named_model(
        "flows", "auto", build_cluster(ClusterConfig(nodes=4, node="dgx-a100", network=network))
    )
    assert "in-network" not in model.candidates


def test_a_mixed_cluster_does_without_the_algorithms_that_ask_for_equal_nodes():
    groups = [{"nodes": 1, "node": "dgx-a100", "gpus_per_node": gpus} for gpus in (4, 8)]
    network = {"fabric": "single-switch", "in_network_reduction": True}
    model = named_model(
        "auto", "auto", build_cluster(ClusterConfig(groups=groups, network=network))
    )
    assert set(model.candidates) == set(algorithm_names()) - {"hierarchical"}
    assert model.finish(np.zeros(12), 2**20).finishes.max() > 0


LONG, QUICK = [("all-to-all", 1024), ("round-robin", 1024)], [("all-to-all", 512), ("ring", 4096)]


@pytest.mark.parametrize(("name", "ranks"), LONG + QUICK)
def test_patterns_that_take_long_to_lay_out_are_not_tried(name, ranks):
    assert is_quick(algorithm(name).schedule(ranks)) == ((name, ranks) in QUICK)


def test_an_unknown_name_gets_the_nearest():
    with pytest.raises(UnknownNameError, match="butterfly"):
        named_model("auto", "buterfly", SWITCH)
