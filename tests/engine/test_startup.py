"""What every worker receives before the first step: weights, and the state of the optimiser.

Two workers, so that a broadcast is one message; 2 MB of weights; cards of 1 MB/s.
"""

import pytest

from dpsim import Scenario, simulate

# Momentum is one more float32 for each parameter, Adam's two moments are two more.
STATES = pytest.mark.parametrize(
    ("optimizer", "states"), [("sgd", 0), ("momentum", 1), ("adam", 2)]
)


def startup_s(tiny, optimizer, **aggregation):
    scenario = tiny(2, aggregation=aggregation, workload={"optimizer": optimizer})
    return simulate(scenario).one_time.startup_s


@STATES
def test_weights_and_state_are_broadcast(tiny, optimizer, states):
    found = startup_s(tiny, optimizer, kind="allreduce")
    assert found == pytest.approx(2 + 2 * states, rel=1e-6)


@STATES
@pytest.mark.parametrize("stage", [1, 2])
def test_while_only_state_is_divided_weights_are_broadcast(tiny, optimizer, states, stage):
    """The other worker receives its half of the state."""
    found = startup_s(tiny, optimizer, kind="sharded", stage=stage)
    assert found == pytest.approx(2 + 2 * states / 2, rel=1e-6)


@STATES
def test_where_weights_are_divided_too_all_of_it_is_scattered(tiny, optimizer, states):
    found = startup_s(tiny, optimizer, kind="sharded", stage=3)
    assert found == pytest.approx((2 + 2 * states) / 2, rel=1e-6)


@STATES
def test_servers_keep_the_state(tiny, optimizer, states):
    """Both workers pull 2 MB from a server on the first one's node, whose card sends to one."""
    found = startup_s(tiny, optimizer, kind="parameter-server", servers=1)
    assert found == pytest.approx(2, rel=1e-6)


def test_a_library_with_a_broadcast_starts_the_run():
    """ResNet-50's weights and momentum pass each card of 25 Gbit/s once; a tree's leave it twice."""
    content = {
        "cluster": {
            "nodes": 4,
            "node": "dgx1-v100",
            "network": {"fabric": "leaf-spine", "nic": "25GbE", "nics_per_node": 1},
        },
        "workload": {"model": "resnet50", "batch_per_gpu": 32, "optimizer": "momentum"},
    }

    def starts(library):
        aggregation = {"kind": "allreduce", "library": library}
        strategy = {"strategy": {"aggregation": aggregation}}
        scenario = Scenario.model_validate({"name": "x", **content, **strategy})
        return simulate(scenario).one_time.startup_s

    state = 2 * 4 * 25_557_032
    assert state / 3.125e9 <= starts("nccl") <= 1.3 * state / 3.125e9
    assert starts("ideal") >= 2 * state / 3.125e9


def test_gossip_among_other_traffic_starts_and_ends_whatever_model_its_steps_ask_for(tiny):
    background = [{"source": 0, "destination": 1, "rate": "1 B/s"}]
    scenario = tiny(
        2,
        aggregation={"kind": "gossip", "graph": "ring"},
        workload={"optimizer": "sgd"},
        disturbance={"background": background},
        run={"steps": 4, "network_model": "rounds"},
    )
    found = simulate(scenario).one_time
    # A broadcast of 2 MB, and a ring of two over all of it.
    assert (found.startup_s, found.consensus_s) == pytest.approx((2, 2), rel=1e-3)
