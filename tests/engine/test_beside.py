"""What collectives cost the layers beside them, and what shards copy."""

from dataclasses import replace

import pytest

from dpsim.engine import collective_seconds, prepare
from dpsim.workload import transformer_efficiency


def job(contention: float, copies: float, **aggregation: object):
    from dpsim.scenario import Scenario

    scenario = Scenario.model_validate(
        {
            "name": "m",
            "cluster": {"nodes": 1, "node": "dgx-a100"},
            "workload": {
                "model": "gpt3-125m",
                "batch_per_gpu": 4,
                "precision": "bf16",
                "optimizer": "adamw",
                "gradient_accumulation": 2,
            },
            "strategy": {
                "aggregation": {"kind": "sharded", "weight_bytes": 2, **aggregation},
            },
        }
    )
    law = transformer_efficiency("ampere")
    assert law is not None
    return prepare(scenario, replace(law, contention=contention, copies=copies))


EACH = {"gradients": {"dtype": "bf16", "sync_each_pass": True}}


def test_a_pass_is_longer_by_a_share_of_what_is_communicated_beside_it():
    alone, beside = job(1e-9, 1e-9, **EACH), job(0.5, 1e-9, **EACH)
    seconds = collective_seconds(alone)
    longer = 0.5 * float(seconds.forward.mean() + seconds.backward.min())
    assert longer > 0
    assert beside.times[0].step - alone.times[0].step == pytest.approx(2 * longer, rel=1e-6)


def test_gradients_that_are_reduced_after_the_last_pass_delay_it_alone():
    alone, beside = job(1e-9, 1e-9), job(0.5, 1e-9)
    seconds = collective_seconds(alone)
    assert seconds.backward[1] > seconds.backward[0]
    total = float(seconds.forward.sum() + seconds.backward.sum())
    assert beside.times[0].step - alone.times[0].step == pytest.approx(0.5 * total, rel=1e-6)


@pytest.mark.parametrize(
    ("aggregation", "bytes_a_parameter"),
    [
        (EACH, 2 + 2 + 4),
        ({"gradients": {"dtype": "fp32"}}, 2 + 2 + 4 + 6),
        ({"stage": 1, **EACH}, 4),
    ],
)
def test_shards_copy_weights_and_gradients(aggregation, bytes_a_parameter):
    plain, copied = job(1e-9, 1e-9, **aggregation), job(1e-9, 1.0, **aggregation)
    law = transformer_efficiency("ampere")
    assert law is not None
    rate = law.memory * 1555e9
    moved = 2 * bytes_a_parameter * plain.model.parameters / rate
    assert copied.times[0].step - plain.times[0].step == pytest.approx(moved, rel=1e-3)
