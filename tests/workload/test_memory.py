"""What a step holds: published figures, and laws of the parts."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.base.errors import DpsimError
from dpsim.workload import (
    Layer,
    Model,
    Recompute,
    Setup,
    Software,
    build_model,
    footprint,
    largest_batch,
    least_split,
    remedies,
)
from dpsim.workload.memory import CONTEXT, FRAGMENTATION, checkpointed_activations

GB = 1e9
GPT3 = Model("gpt3", (Layer("h", "linear", (175_000_000_000,), activations=1),), "token")


def flat(parameters, activations=1000):
    return Model("flat", (Layer("a", "linear", (parameters,), activations=activations),), "sample")


@pytest.mark.parametrize(
    ("precision", "optimizer", "expected"),
    [
        ("fp32", "sgd", 8),  # weights and gradients
        ("fp32", "momentum", 12),
        ("fp32", "adam", 16),
        ("fp32", "adagrad", 12),
        ("fp32", "lars", 12),
        ("fp32", "lamb", 16),
        ("fp16", "sgd", 8),  # half-width weights and gradients, and weights in fp32
        ("fp16", "momentum", 12),
        ("bf16", "adam", 16),
        ("bf16", "adamw-8bit", 8 + 2 * (1 + 4 / 256)),  # two moments, and scales of their blocks
        ("bf16", "lamb", 16),
    ],
)
def test_bytes_of_model_state_per_parameter(precision, optimizer, expected):
    assert footprint(flat(1000), Setup(1, precision, optimizer)).model_state == expected * 1000


def test_gpt2_xl_with_adam_takes_at_least_24_gb():
    """Rajbhandari et al. 2020, section 3.1.

    1.5 billion parameters, "at least 24 GB", where fp16 weights are 3 GB.
    """
    held = footprint(build_model("gpt2-xl"), Setup(1, "fp16", "adam"))
    assert held.model_state == 16 * 1_557_611_200
    assert held.weights == 2 * 1_557_611_200


@pytest.mark.parametrize(("stage", "published_gb"), [(0, 120), (1, 31.4), (2, 16.6), (3, 1.9)])
def test_zero_stages_of_7_5_billion_parameters_on_64_gpus(stage, published_gb):
    """Rajbhandari et al. 2020, figure 1."""
    held = footprint(flat(7_500_000_000), Setup(1, "fp16", "adam", stage=stage, workers=64))
    assert round(held.model_state / GB, 1) == published_gb


def test_gpt3_does_not_fit_and_must_be_split():
    """350 GB of fp16 weights.

    Five H100 of 80 GB to hold them, ceil((16 + 2) x 175e9 / what they leave) to train.
    """
    single = Setup(1, "fp16", "adam")
    assert footprint(GPT3, single).weights == 350 * GB
    assert least_split(GPT3, single, 80 * GB).weights == 5
    assert least_split(GPT3, single, 80 * GB).training == 38  # 2,800 GB x 1.05 / 78.7 GB = 37.4
    assert remedies(GPT3, single, 80 * GB) == []


def test_activations_of_a_transformer_block_are_the_published_formula():
    """Korthikanti et al. 2022, equation 1.

    S b h (34 + 5 a s / h) bytes; here without masks: 1 + 1 + a s / h less.
    """
    layers = build_model("gpt2-medium").layers
    block = [layer for layer in layers if layer.name.startswith("h.3.")]
    s, h, a = 1024, 1024, 16
    assert 2 * sum(layer.activations for layer in block) == pytest.approx(
        s * h * (32 + 4 * a * s / h), rel=0.1
    )


def test_parts_add_up_and_fragments_are_a_share_of_what_is_allocated():
    held = footprint(flat(10**9), Setup(4, "fp16", "adam", workers=8))
    assert held.parts() == {
        "weights": 2e9,
        "gradients": 2e9,
        "optimizer": 12e9,
        "activations": 4 * 1000 * 2.0,
        "loss": 0.0,
        "buckets": 4e9,
        "fragmentation": FRAGMENTATION * (20e9 + 8000),
        "context": CONTEXT,
    }
    assert held.total == sum(held.parts().values())


def test_learners_hold_everything_but_context_and_buckets_each():
    one, three = (footprint(flat(10**6), Setup(4, workers=2, learners=k)) for k in (1, 3))
    for part in ("weights", "gradients", "optimizer", "activations"):
        assert getattr(three, part) == 3 * getattr(one, part)
    assert (three.buckets, three.context) == (one.buckets, one.context)


def test_a_fully_sharded_model_gathers_two_blocks_and_reduces_one():
    layers = tuple(
        Layer(f"h.{i}.fc", "linear", (size,), activations=1) for i, size in enumerate((10, 30, 20))
    )
    setup = Setup(1, "fp16", "adam", stage=3, workers=2)
    held = footprint(Model("blocks", layers, "sample"), setup)
    assert held.buckets == 2 * (30 + 20) + (2 + 4) * 30
    assert held.weights == 60
    # What is gathered in 4 bytes takes them.
    wide = footprint(Model("blocks", layers, "sample"), replace(setup, weight_bytes=4))
    assert wide.buckets == 4 * (30 + 20) + (2 + 4) * 30


def test_a_group_of_one_gathers_nothing():
    layers = tuple(Layer(f"h.{i}.fc", "linear", (size,)) for i, size in enumerate((10, 30, 20)))
    model = Model("blocks", layers, "sample")
    held = [footprint(model, Setup(1, stage=stage, workers=4, shard_group=1)) for stage in (2, 3)]
    assert held[0].total >= held[1].total
    assert held[1].buckets == (4 + 4) * 30


def test_blocks_are_named_up_to_the_first_number():
    names = ["wte", "h.0.ln_1", "h.0.mlp.2.fc", "h.1.ln_1", "conv1", "conv2"]
    model = Model("blocks", tuple(Layer(name, "norm") for name in names), "sample")
    assert model.blocks == ((0, 1), (1, 3), (3, 4), (4, 5), (5, 6))


def test_checkpointing_holds_borders_and_the_largest_segment():
    """Nine equal layers in segments of three (Chen et al. 2016: the square root): two borders and
    three layers.
    """
    model = Model(
        "chain", tuple(Layer(f"fc{i}", "linear", activations=10) for i in range(9)), "sample"
    )
    assert checkpointed_activations(model) == 2 * 10 + 3 * 10


def test_segments_of_so_many_layers_hold_their_borders_and_the_largest():
    model = Model(
        "chain",
        tuple(
            Layer(f"fc{i}", "linear", activations=size) for i, size in enumerate((1, 2, 3, 4, 5))
        ),
        "sample",
    )
    assert Recompute(layers=2).of(model).held == 2 + 4 + (3 + 4)
    assert (
        footprint(model, Setup(1, checkpointing=True, recompute=Recompute(layers=2))).activations
        == 4 * 13
    )
    assert Recompute(layers=9).of(model).held == model.activations


def test_checkpointing_of_a_transformer_keeps_what_enters_each_block():
    model = build_model("gpt2")
    width, block = (
        1024 * 768,
        sum(layer.activations for layer in model.layers if layer.name.startswith("h.5.")),
    )
    ends = sum(layer.activations for layer in model.layers if not layer.name.startswith("h."))
    assert block + 11 * width <= checkpointed_activations(model) <= block + 13 * width + ends


@given(
    parameters=st.integers(1, 10**9),
    activations=st.integers(100, 10**7),
    capacity=st.floats(1e9, 1e11),
    workers=st.integers(1, 64),
    stage=st.integers(0, 3),
    words=st.integers(0, 10**7),
)
def test_the_largest_batch_fits_and_one_more_does_not(
    parameters, activations, capacity, workers, stage, words
):
    layers = (*flat(parameters, activations).layers, Layer("loss", "loss", activations=words))
    model, setup = (
        Model("any", layers, "sample"),
        Setup(1, "fp16", "adam", stage=stage, workers=workers),
    )
    largest = largest_batch(model, setup, capacity)
    assert largest == 0 or footprint(model, replace(setup, batch=largest)).total <= capacity
    assert footprint(model, replace(setup, batch=largest + 1)).total > capacity


@given(
    parameters=st.integers(1, 4 * 10**9),
    activations=st.lists(st.integers(0, 10**9), min_size=1, max_size=6).filter(any),
    workers=st.integers(1, 64),
    batch=st.integers(1, 64),
    stage=st.integers(0, 3),
)
def test_a_remedy_makes_it_fit(parameters, activations, workers, batch, stage):
    layers = tuple(
        Layer(f"fc{i}", "linear", (parameters,), activations=kept)
        for i, kept in enumerate(activations)
    )
    model, setup, capacity = (
        Model("any", layers, "sample"),
        Setup(batch, "fp16", "adam", stage=stage, workers=workers),
        80 * GB,
    )
    if footprint(model, setup).total <= capacity:
        return
    found = remedies(model, setup, capacity)
    for remedy in found:
        assert footprint(model, replace(setup, **remedy.changes)).total <= capacity
    best = replace(setup, batch=1, checkpointing=True, stage=3 if workers > 1 else stage)
    assert found or footprint(model, best).total > capacity


def test_the_smallest_remedy_is_one_change_in_the_order_shard_checkpoint_accumulate():
    chain = Model(
        "chain", tuple(Layer(f"fc{i}", "linear", activations=10**8) for i in range(9)), "sample"
    )  # 1.8 GB, or 1 GB
    texts = [
        remedy.text for remedy in remedies(chain, Setup(12, "fp16", "adam", workers=8), 16 * GB)
    ]
    assert texts == [
        "checkpoint activations",
        "take at most 7 samples at a time (the same batch in 2 accumulated passes)",
    ]
    wide = flat(2 * 10**9)
    assert [
        remedy.changes for remedy in remedies(wide, Setup(1, "fp16", "adam", workers=8), 32 * GB)
    ] == [{"stage": 1}]


def test_fewer_learners_are_a_remedy():
    found = remedies(flat(10**9), Setup(1, "fp16", "adam", learners=5), 80 * GB)
    assert found[0].changes == {"learners": 4}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"batch": 0}, "batch must be at least 1, but got 0"),
        ({"batch": 1, "stage": 4}, "stage must be 0, 1, 2 or 3, but got 4"),
        (
            {"batch": 1, "stage": 1, "learners": 2},
            "learners must be 1 where model state is divided",
        ),
    ],
)
def test_impossible_setups_are_refused(wrong, message):
    with pytest.raises(DpsimError, match=message):
        Setup(**wrong)


def test_pure_bf16_keeps_half_of_the_bytes():
    """2 bytes each of weights, gradients and two moments: 8 a parameter instead of 16."""
    model = build_model("gpt2")
    setup = Setup(batch=1, precision="bf16", optimizer="adamw", workers=8, stage=0)
    pure = footprint(replace(model, parameter_bytes=2), setup)
    assert pure.model_state == 8 * model.parameters
    assert pure.buckets == 2 * model.parameters
    mixed = footprint(model, setup)
    assert mixed.model_state == 16 * model.parameters
    assert pure.activations == mixed.activations


LOSSES = {"full": 14, "compiled": 2, "chunked": 7, "fused": 0}


@pytest.mark.parametrize("cross_entropy", LOSSES)
def test_the_loss_takes_what_its_kernels_need(cross_entropy):
    """Bytes a logit in half precision; of fused ones no logits are kept for backward either."""
    model = build_model("gpt2")
    words = 1024 * 50257
    software = replace(Software(), cross_entropy=cross_entropy)
    setup = Setup(batch=2, precision="bf16", software=software)
    held = footprint(model, setup)
    assert held.loss == pytest.approx(2 * words * LOSSES[cross_entropy], rel=0.001)
    kept = footprint(model, replace(setup, software=Software())).activations
    saved = 2 * 2 * words if cross_entropy == "fused" else 0
    assert kept - held.activations == pytest.approx(saved, rel=0.001)


def test_of_the_loss_and_what_is_reduced_after_it_the_larger_is_held():
    """ZeRO 3 reduces the largest block in 2 + 4 bytes, when the loss is over."""
    model = build_model("gpt2")
    software = replace(Software(), cross_entropy="compiled")
    setup = Setup(batch=1, precision="bf16", stage=3, workers=8, software=software)
    small, large = footprint(model, setup), footprint(model, replace(setup, batch=64))
    assert small.loss == 0
    assert small.buckets == large.buckets
    assert large.loss > 0
