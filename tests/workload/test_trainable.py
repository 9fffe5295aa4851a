"""Frozen weights and adapters: what of a step is left where a part of a model is trained."""

import pytest

from dpsim.base.errors import DpsimError
from dpsim.workload import Builder, Recompute, Setup, WorkloadConfig, build_model, footprint
from dpsim.workload.trainable import frozen, frozen_before


def workload(trainable, model="llama2-7b", **more):
    values = {"model": model, "batch_per_gpu": 1, "sequence_length": 32, "trainable": trainable}
    return WorkloadConfig.model_validate(values | more)


def lora(rank=16, on="attention"):
    return {"lora": {"rank": rank, "on": on}}


def three_products():
    b = Builder((10, 4))
    for name, width in (("first", 8), ("second", 8), ("third", 4)):
        b.linear(name, width, bias=False)
        b.activation(f"{name}.relu", kept=True)
    return b.build("three", "10 rows")


def test_backward_is_that_of_inputs_behind_what_is_trained_and_none_before_it():
    model = frozen(three_products(), [False, False, True, False, False, False])
    first, entering, second, _, third, relu = model.layers
    assert entering.activations == 80  # the gradient by the second's weights needs it
    assert (first.frozen, second.frozen, third.frozen, relu.frozen) == (True, False, True, False)
    assert first.backward_flop == first.backward_traffic == first.activations == 0
    assert second.backward_flop == second.forward_flop  # only by its weights
    assert third.backward_flop == third.forward_flop  # only by its input
    assert relu.backward_traffic == 3 * 40
    assert (model.parameters, model.trained) == (32 + 64 + 32, 64)
    assert model.tensors.elements.tolist() == [64]
    assert model.first_trained == 2


def test_what_is_frozen_stays_frozen():
    once = frozen_before(three_products(), "second")
    assert frozen(once, [True] * 6) == once
    assert once.trained == 64 + 32


def test_all_is_the_model_itself():
    assert (
        workload("all").build() == build_model("llama2-7b", 32) == workload({"fraction": 1}).build()
    )


def test_a_tied_output_layer_is_trained_with_the_table():
    both = workload(["wte"], "gpt2").build()
    assert [layer.name for layer in both.layers if not layer.frozen and layer.borrowed] == [
        "lm_head"
    ]
    assert workload({"fraction": 1}, "gpt2").build() == workload("all", "gpt2").build()
    neither = workload({"fraction": 0.1}, "gpt2").build()
    assert neither.layers[-2].name == "lm_head"
    assert neither.layers[-2].frozen


@pytest.mark.parametrize(
    ("trainable", "trained"),
    [
        # As PEFT prints them for Llama 2 7B.
        (lora(), 16_777_216),
        (lora(8), 8_388_608),
        (lora(16, "all-linear"), 39_976_960),
        # The last block and what is behind it: at least 5 %.
        (["layers.31.*", "norm", "lm_head"], 202_383_360 + 4096 + 131_072_000),
        (["*_proj"], 32 * (4 * 4096**2 + 3 * 4096 * 11008)),
    ],
)
def test_trained_weights(trainable, trained):
    model = workload(trainable).build()
    assert model.trained == trained
    assert int(model.tensors.elements.sum()) == trained


def test_a_fraction_is_of_the_last_layers():
    model = workload({"fraction": 0.05}).build()
    assert 0.05 <= model.trained / model.parameters < 0.06
    assert model.layers[-2].trained_weights == 131_072_000


def test_an_adapter_stands_behind_its_product():
    layers = {layer.name: layer for layer in workload(lora()).build().layers}
    product, first, second = (
        layers[f"layers.1.self_attn.q_proj{part}"] for part in ("", ".lora_A", ".lora_B")
    )
    assert product.frozen
    assert product.backward_flop == product.forward_flop
    assert (first.shape, second.shape) == ((32, 4096, 16), (32, 16, 4096))
    assert (first.parameters, second.parameters) == ((4096 * 16,), (16 * 4096,))
    assert first.backward_flop == 2 * first.forward_flop
    # Nothing before the first adapter wants a gradient.
    assert layers["layers.0.self_attn.q_proj"].backward_flop == 0
    assert layers["layers.0.self_attn.q_proj.lora_A"].backward_flop == 2 * 32 * 4096 * 16


def test_inputs_of_frozen_products_are_not_kept():
    kept = {layer.name: layer.activations for layer in workload(lora()).build().layers}
    whole = {layer.name: layer.activations for layer in workload("all").build().layers}
    dropped = [name for name in whole if whole[name] and not kept[name] and ".5." in name]
    assert dropped == ["layers.5.post_attention_layernorm", "layers.5.mlp.gate"]


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_frozen_weights_take_only_their_bytes(stage):
    model = workload(lora()).build()
    held = footprint(model, Setup(1, "bf16", "adamw", stage=stage, workers=4))
    shards = {True: 4, False: 1}
    assert held.weights == 2 * model.parameters / shards[stage >= 3]
    assert held.gradients == 2 * model.trained / shards[stage >= 2]
    assert held.optimizer == 12 * model.trained / shards[stage >= 1]


def test_nothing_is_computed_again_where_backward_does_not_come_to():
    model = workload(["layers.31.*"]).build()
    again = Recompute().of(model).seconds(model.vector("forward_flop"))
    inside = [layer.block for layer, seconds in zip(model.layers, again, strict=True) if seconds]
    assert inside == ["layers.31"]


def test_no_patterns_are_refused_as_such():
    with pytest.raises(ValueError, match="at least 1 item"):
        workload([])


@pytest.mark.parametrize(
    ("trainable", "model", "problem"),
    [
        (["layers.99.*"], "llama2-7b", r"'layers\.99\.\*' matches none with weights"),
        (lora(), "lstm-ptb", "must be on linear layers that lstm-ptb has, but it has none"),
    ],
)
def test_what_trains_nothing_is_refused(trainable, model, problem):
    with pytest.raises(DpsimError, match=f"^workload.trainable: .*{problem}"):
        workload(trainable, model).build()
