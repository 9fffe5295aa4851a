"""Batch normalisation over several GPUs: the waits that it adds, and where it is refused."""

import pytest

from dpsim.base.errors import DpsimError
from dpsim.engine import prepare
from dpsim.scenario import Scenario
from dpsim.workload import build_model


def scenario(group, model="resnet50", node="testbed-host", nodes=4, **strategy):
    network = {
        "fabric": "single-switch",
        "nic": {"name": "n", "rate": "1 Gbit/s", "latency": "1 ms"},
    }
    cluster = {"nodes": nodes, "node": node}
    return Scenario.model_validate(
        {
            "name": "norms",
            "cluster": cluster | ({"network": network} if node == "testbed-host" else {}),
            "workload": {"model": model, "batch_per_gpu": 8, "sync_batch_norm": group},
            "strategy": {
                "aggregation": {"kind": "allreduce", "library": "ideal"},
                "overlap": {"kind": "sequential"},
                **strategy,
            },
        }
    )


def added(group, **words):
    """Return the seconds that groups add to each layer's forward and backward pass."""
    (single, *_), (shared, *_) = (prepare(scenario(own, **words)).times for own in (1, group))
    return shared.forward - single.forward, shared.backward - single.backward


def test_each_batch_norm_waits_for_a_ring_of_its_group_in_both_passes():
    forward, backward = added(2)
    layers = build_model("resnet50").layers
    # A ring of two: two rounds, each over two links of 1 ms with half of 2C + 1 values.
    for layer, *waits in zip(layers, forward, backward, strict=True):
        channels = layer.parameters[0] if "bn" in layer.name or "downsample.1" in layer.name else 0
        ring = 2 * (2e-3 + 4 * (channels + 1) / 125e6)
        assert waits == pytest.approx([ring if channels else 0.0] * 2, rel=1e-3)
    assert (forward > 0).sum() == 53


def test_a_group_within_a_node_waits_less_than_one_across_nodes():
    inside, across = (added(group, node="dgx-a100")[0].sum() for group in (8, 16))
    assert 0 < inside < across


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ({"group": 3}, "must divide the 4 GPUs, but got 3"),
        ({"group": 2, "model": "gpt2"}, "must be 1 for gpt2, which has no batch normalisation"),
        ({"group": 2, "sync": {"kind": "asp"}}, "must be 1 under asp, whose workers do not keep"),
    ],
)
def test_where_statistics_cannot_be_shared(words, rule):
    with pytest.raises(DpsimError, match=rule) as refused:
        prepare(scenario(**words))
    assert str(refused.value).startswith("workload.sync_batch_norm: ")
