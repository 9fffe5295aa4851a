"""What communication costs the layers beside it, and what shards copy."""

from dataclasses import replace

import pytest
from pydantic import ValidationError

from dpsim.engine import Job, memory_use, overlapped_bytes, prepare
from dpsim.engine.calls import planned
from dpsim.engine.kernel import simulate_job
from dpsim.scenario import Scenario
from dpsim.workload import build_model, constants_for
from dpsim.workload.software import BY_TIER

A100_MEMORY = 1555e9
NONE = 1e-12


def scenario(nodes: int = 1, **aggregation: object) -> Scenario:
    """GPT-3 125M in two passes on A100s, sharded."""
    return Scenario.model_validate(
        {
            "name": "m",
            "cluster": {"nodes": nodes, "node": "dgx-a100"},
            "workload": {
                "model": "gpt3-125m",
                "batch_per_gpu": 4,
                "precision": "bf16",
                "optimizer": "adamw",
                "gradient_accumulation": 2,
            },
            "strategy": {"aggregation": {"kind": "sharded", "weight_bytes": 2, **aggregation}},
            "run": {"steps": 1, "warmup": 0},
        }
    )


LAW = constants_for(build_model("gpt3-125m"), "ampere", "bf16", BY_TIER["typical"])


def job(wire: float, copies: float, **aggregation: object) -> Job:
    return prepare(scenario(**aggregation), replace(LAW, wire=wire, copies=copies))


def rate() -> float:
    return LAW.memory * A100_MEMORY


EACH = {"gradients": {"dtype": "bf16", "sync_each_pass": True}}


def test_a_pass_is_longer_by_the_traffic_of_what_is_communicated_beside_it():
    single, beside = job(NONE, NONE, **EACH), job(3.0, NONE, **EACH)
    moved = overlapped_bytes(single)
    each = float(moved.forward.mean() + moved.backward.min())
    # Weights are gathered twice and gradients reduced once, all in half precision: but for what
    # nothing computes beside, the first unit.
    assert 0.8 < each / (6 * single.model.parameters) <= 1
    longer = 2 * 3 * each / rate()
    assert beside.times[0].step - single.times[0].step == pytest.approx(longer, rel=1e-6)


def test_gradients_reduced_after_the_last_pass_delay_only_that_pass():
    single, beside = job(NONE, NONE), job(3.0, NONE)
    moved = overlapped_bytes(single)
    assert moved.backward[1] > moved.backward[0]
    total = float(moved.forward.sum() + moved.backward.sum())
    assert beside.times[0].step - single.times[0].step == pytest.approx(
        3 * total / rate(), rel=1e-6
    )


@pytest.mark.parametrize(
    ("aggregation", "bytes_a_parameter"),
    [
        (EACH, 2 + 2 + 4),
        ({"gradients": {"dtype": "fp32"}}, 2 + 2 + 4 + 6),
        ({"stage": 1, **EACH}, 4),
    ],
)
def test_shards_copy_weights_and_gradients(aggregation, bytes_a_parameter):
    plain, copied = job(NONE, NONE, **aggregation), job(NONE, 1.0, **aggregation)
    moved = 2 * bytes_a_parameter * plain.model.parameters / rate()
    assert copied.times[0].step - plain.times[0].step == pytest.approx(moved, rel=1e-3)


@pytest.mark.parametrize("nodes", [2, 32])
def test_owners_of_tensors_send_them_one_after_the_other(nodes):
    """Beyond as many workers as there are tensors the others own none."""
    of_all = prepare(scenario(nodes, stage=1, owners="tensors"))
    tensors = of_all.model.tensors.elements
    sent = [call.nbytes for call in planned(of_all, grouped=False) if call.payload == "weights"]
    assert len(sent) == min(8 * nodes, len(tensors))
    assert sum(sent) == 2 * of_all.model.parameters
    assert max(sent) == 2 * tensors.max()


@pytest.mark.parametrize("owners", ["slices", "tensors"])
def test_owners_cost_more_where_they_are_many(owners):
    def exposed(nodes: int) -> float:
        of_all = prepare(scenario(nodes, stage=1, owners=owners, library="nccl"))
        return float(simulate_job(of_all).steps.step.mean()) - of_all.times[0].step

    grown = exposed(128) - exposed(4)
    assert grown > 0.3 if owners == "tensors" else grown < 0.1


@pytest.mark.parametrize("group", ["all", "node"])
def test_gradients_that_all_reduce_go_to_everyone_at_once(group):
    """Whatever the groups in which the optimiser's state is divided: no replicas meet."""

    def used(collective: str) -> dict[str, int]:
        gradients = {"dtype": "bf16", "collective": collective}
        of_all = prepare(scenario(4, stage=1, shard_group=group, gradients=gradients))
        sizes: dict[str, int] = {}
        for call in of_all.calls(0):
            for name, nbytes in call.stages:
                sizes[name] = sizes.get(name, 0) + nbytes
        return sizes

    whole, parts = used("all-reduce"), used("reduce-scatter")
    assert set(whole) == {"all-reduce", "all-gather"}
    assert whole["all-reduce"] == parts["reduce-scatter"]
    assert whole["all-gather"] == parts["all-gather"]
    assert ("all-reduce-replicas" in parts) == (group == "node")


@pytest.mark.parametrize("stage", [2, 3])
def test_gradients_that_are_divided_cannot_all_reduce(stage):
    message = rf"collective must be reduce-scatter .* \(stage {stage}\), but got 'all-reduce'"
    with pytest.raises(ValidationError, match=message):
        scenario(4, stage=stage, gradients={"collective": "all-reduce"})


def test_the_breakdown_of_memory_adds_up_and_names_the_loss():
    use = memory_use(scenario())
    parts = use.breakdown()
    assert sum(parts.values()) == pytest.approx(use.held.total)
    words = 50257 * 2048 * 4  # logits of a pass
    # It is over before the largest block, the table of words, is reduced from 2 in 4 bytes.
    reduced = (2 + 4) * 50257 * 768
    assert parts["loss"] == words * (4 + 4 + 4 + 2) - reduced
    assert set(parts) >= {"weights", "gradients", "optimizer", "activations", "gather_buffers"}
