"""Weights, gradients and optimizer state in bf16: what travels, what is moved and what is kept."""

import pytest

from dpsim import load_scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.engine.memory import memory_use
from dpsim.engine.preparation import prepare

HERE = ["run.steps=2", "run.warmup=0", "cluster={nodes: 2, node: dgx-a100}"]
TEXT = "workload={{model: gpt2, batch_per_gpu: 4, optimizer: adamw{}}}"
PURE, MIXED = TEXT.format(", parameter_dtype: bf16"), TEXT.format(", precision: bf16")
WAYS = {
    "allreduce": "strategy.aggregation={kind: allreduce, library: ideal}",
    "parameter-server": "strategy.aggregation={kind: parameter-server}",
    **{
        f"stage-{stage}": f"strategy.aggregation={{kind: sharded, stage: {stage}}}"
        for stage in (1, 2, 3)
    },
}


def scenario(*sets):
    return load_scenario("scenarios/quickstart.yaml", [*HERE, *sets])


@pytest.mark.parametrize("way", WAYS)
def test_half_as_many_bytes_travel(way):
    pure, mixed = (
        sum(size for call in prepare(scenario(text, WAYS[way])).calls(0) for _, size in call.stages)
        for text in (PURE, MIXED)
    )
    assert pure == mixed / 2


def test_gradients_are_sent_in_their_stated_dtype():
    message = "strategy.aggregation={{kind: sharded, stage: 3, gradients: {{dtype: {}}}}}"
    half, whole = (
        [
            sum(size for _, size in call.stages)
            for call in prepare(scenario(PURE, message.format(dtype))).calls(0)
            if call.stages[0][0] == "reduce-scatter"
        ]
        for dtype in ("bf16", "fp32")
    )
    assert sum(whole) == 2 * sum(half)


def test_the_update_moves_half_as_much():
    pure, mixed = (prepare(scenario(text)).times[0].optimizer for text in (PURE, MIXED))
    assert pure < mixed
    pure, mixed = (memory_use(scenario(text)).held for text in (PURE, MIXED))
    assert pure.model_state == mixed.model_state / 2


def test_products_are_in_bf16_too():
    assert scenario(PURE).workload.precision == "bf16"
    with pytest.raises(DpsimError, match="must be bf16, fp8 or nvfp4 with parameter_dtype"):
        scenario(TEXT.format(", parameter_dtype: bf16, precision: fp16"))


@pytest.mark.parametrize(
    ("optimizer", "states", "norms"), [("lars", 1, 2), ("lamb", 2, 5), ("adagrad", 1, 0)]
)
def test_optimizers_with_norms_or_sums_keep_and_move_their_states(optimizer, states, norms):
    requested = scenario(TEXT.format(", precision: bf16"), f"workload.optimizer={optimizer}")
    found = simulate(requested)
    held = found.memory.held
    assert held.optimizer == (4 + 4 * states) * found.job.model.parameters
    sgd = prepare(scenario(TEXT.format(", precision: bf16"), "workload.optimizer=sgd"))
    times, plain = prepare(requested).times[0], sgd.times[0]
    per_byte = (times.optimizer - plain.optimizer) / (4 * (2 * states + norms))
    assert per_byte == pytest.approx(found.job.model.trained / times.memory_rate, rel=1e-6)
