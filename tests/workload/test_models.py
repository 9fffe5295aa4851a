import csv
import time
from pathlib import Path

import numpy as np
import pytest
from model_counts import COUNTED, FORWARD, PARAMETERS, TABLE

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.workload import KINDS, MODELS, build_model, canonical_name
from dpsim.workload.models.gpt import gpt

TEXT = (Path(__file__).parent / "data" / "models.csv").read_text(encoding="utf-8")
ROWS = {row["model"]: row for row in csv.DictReader(TEXT.splitlines())}


def test_every_model_is_counted():
    assert {*COUNTED, *PARAMETERS} == set(MODELS)
    assert not {*COUNTED} & {*PARAMETERS}


@pytest.mark.parametrize("name", PARAMETERS)
def test_parameters_equal_the_published_count(name):
    assert build_model(name).parameters == PARAMETERS[name]


def test_every_row_of_the_published_table_is_compared():
    others = {
        "AlexNet (DGC gradient size)",
        "ResNet-50 (Goyal text)",
        "ResNet-50 (DGC gradient size)",
    }  # the same models again
    assert {*TABLE, *others} == set(ROWS)


@pytest.mark.parametrize("row", TABLE)
def test_totals_are_those_of_the_published_table(row):
    name, tolerance = TABLE[row]
    model, message = build_model(name), ROWS[row]
    rounding = (
        0.005 if name.endswith("cifar") or float(message["params_M"]) < 10 else 0.0
    )  # in millions: two digits are given
    assert model.parameters / 1e6 == pytest.approx(
        float(message["params_M"]), rel=tolerance, abs=rounding
    )
    if (
        message["fwd_GFLOP_per_sample"].replace(".", "").isdigit()
    ):  # the table's figures are multiply-adds
        assert model.forward_flop / 2e9 == pytest.approx(
            float(message["fwd_GFLOP_per_sample"]), rel=0.02
        )


@pytest.mark.parametrize("name", ["gpt3-175b", "llama2-70b", "resnet152", "densenet201"])
def test_large_models_build_in_milliseconds(name):
    best = min(_seconds(lambda: build_model(name)) for _ in range(5))
    assert best < 0.05


def test_ten_trillion_parameters_build_in_milliseconds():
    built = []

    def build():
        built.append(gpt("huge", 128, 80_000, 128, 2048, positions=1024))

    assert min(_seconds(build) for _ in range(5)) < 0.2
    assert built[0].parameters > 9.8e12
    assert int(built[0].tensors.elements.sum()) == built[0].parameters


def _seconds(build):
    start = time.perf_counter()
    build()
    return time.perf_counter() - start


@pytest.mark.parametrize(
    "name",
    [
        name
        for name in MODELS
        if name.startswith(
            ("gpt", "llama", "mpt", "bert", "mistral", "qwen", "gemma", "phi", "olmo", "pythia")
        )
        and name not in ("qwen3-30b-a3b", "olmoe-1b-7b")
    ],
)
def test_a_transformer_takes_two_flop_per_weight_and_token(name):
    model = build_model(name, 16)  # few tokens, so that attention is little
    tables = sum(layer.own_weights for layer in model.layers if layer.kind == "embedding")
    pooler = sum(layer.own_weights for layer in model.layers if layer.name.startswith("pooler"))
    tied = sum(layer.borrowed for layer in model.layers)
    assert model.forward_flop == pytest.approx(
        2 * 16 * (model.parameters - tables - pooler + tied), rel=0.01
    )


def test_fewer_groups_of_keys_are_narrower_products():
    shapes = {layer.name: layer.parameters for layer in build_model("llama3-8b", 16).layers}
    assert [shapes[f"layers.0.self_attn.{part}_proj"] for part in "qkv"] == [
        (4096 * 4096,),
        (4096 * 1024,),
        (4096 * 1024,),
    ]


def test_a_recurrent_layer_takes_a_step_for_each_token():
    steps = {layer.name: layer.steps for layer in build_model("lstm-ptb", 35).layers}
    assert (steps["rnn.l0.ih"], steps["rnn.l0.hh"], steps["decoder"]) == (1, 35, 1)


def test_tensors_of_an_lstm_layer_are_torch_s():
    model = build_model("lstm-ptb")
    assert model.tensors.elements.tolist() == [
        15_000_000,
        *[9_000_000, 9_000_000, 6000, 6000] * 2,
        10_000,
    ]


@pytest.mark.parametrize("name", COUNTED)
def test_totals_equal_what_torch_counts(name):
    model = build_model(name)
    assert (
        model.parameters,
        len(model.tensors.elements),
        model.forward_flop,
        model.backward_flop,
    ) == COUNTED[name]


@pytest.mark.parametrize("name", FORWARD)
def test_forward_flop_equal_what_torch_counts(name):
    assert build_model(name).forward_flop == FORWARD[name]


@pytest.mark.parametrize(
    ("name", "multiply_adds"),
    [
        ("alexnet", 0.714e9),
        ("vgg16", 15.47e9),
        ("resnet50", 4.09e9),
        ("resnet152", 11.51e9),
        ("inception-v3", 5.71e9),
    ],
)
def test_field_quotes_multiply_adds(name, multiply_adds):
    assert build_model(name).forward_flop == pytest.approx(2 * multiply_adds, rel=0.01)


@pytest.mark.parametrize("name", MODELS)
def test_layers_are_sound(name):
    model = build_model(name)
    names = [layer.name for layer in model.layers]
    assert len(set(names)) == len(names)
    assert {layer.kind for layer in model.layers} <= set(KINDS)
    for layer in model.layers:
        assert (
            min(layer.forward_flop, layer.backward_flop, layer.backward_traffic, layer.activations)
            >= 0
        ), layer
        assert layer.forward_traffic > 0, layer


@pytest.mark.parametrize("name", MODELS)
def test_backward_is_twice_forward_but_the_first_input_gradient(name):
    model = build_model(name)
    if model.trained < model.parameters:
        pytest.skip("begins with frozen layers")
    first = next(layer for layer in model.layers if layer.forward_flop)
    # What looks a table up needs the gradient of what it found.
    learned = model.layers[: model.layers.index(first)]
    looked_up = any(layer.kind == "embedding" for layer in learned)
    unlearned = 0 if looked_up else first.forward_flop
    fused = [layer for layer in model.layers if layer.backward_flop > 2 * layer.forward_flop]
    assert {layer.kind for layer in fused} <= {"attention"}
    again = sum(layer.forward_flop for layer in fused)
    assert (
        model.backward_flop == 2 * model.forward_flop - unlearned + again // 2
    )  # a fused kernel computes its scores anew


def test_tensors_of_resnet50():
    model = build_model("resnet50")
    elements, layer = model.tensors
    assert elements[:3].tolist() == [9408, 64, 64]
    assert elements[-2:].tolist() == [2_048_000, 1000]
    assert [model.layers[i].name for i in layer[:3]] == ["conv1", "bn1", "bn1"]
    assert np.all(np.diff(layer) >= 0)
    assert int(elements.max()) == 512 * 512 * 9
    assert (
        max(
            tensor
            for owner in model.layers
            if owner.kind == "linear"
            for tensor in owner.parameters
        )
        == 2_048_000
    )


def test_tensors_of_a_block_of_gpt2_in_order():
    d = 768
    elements = build_model("gpt2").tensors.elements[2:14]
    assert elements.tolist() == [
        d,
        d,
        3 * d * d,
        3 * d,
        d * d,
        d,
        d,
        d,
        4 * d * d,
        4 * d,
        4 * d * d,
        d,
    ]


@pytest.mark.parametrize(
    ("name", "blocks", "width"),
    [("gpt2", 12, 768), ("gpt2-medium", 24, 1024), ("gpt2-large", 36, 1280), ("gpt2-xl", 48, 1600)],
)
@pytest.mark.parametrize("tokens", [1, 128, 1024])
def test_gpt2_is_two_flop_per_matrix_weight_and_token_plus_attention(name, blocks, width, tokens):
    matrices = 12 * blocks * width**2 + 50257 * width
    assert (
        build_model(name, tokens).forward_flop
        == 2 * tokens * matrices + 4 * blocks * tokens**2 * width
    )


def test_gpt2_is_about_two_flop_per_parameter_and_token():
    model = build_model("gpt2-xl", 16)
    assert model.forward_flop / 16 == pytest.approx(2 * model.parameters, rel=0.01)


def test_output_layer_of_gpt2_owns_no_weights():
    head = next(layer for layer in build_model("gpt2").layers if layer.name == "lm_head")
    assert (head.parameters, head.borrowed) == ((), 50257 * 768)


def test_parameters_do_not_depend_on_the_sequence_length():
    assert build_model("bert-base", 512).parameters == build_model("bert-base", 1).parameters


def test_usual_sequence_lengths():
    assert [build_model(name).sample for name in ("bert-base", "gpt2")] == [
        "128 tokens",
        "1024 tokens",
    ]


def test_activations_of_a_transformer_block():
    # Korthikanti et al. 2022: 34 s b h bytes per block in half precision with one-byte masks of
    # dropout; without them 32.
    tokens, width, heads = 512, 1024, 16
    model = build_model("gpt2-medium", tokens)
    block = sum(layer.activations for layer in model.layers if layer.name.startswith("h.3."))
    assert 2 * block == 32 * tokens * width + 4 * heads * tokens**2


@pytest.mark.parametrize(
    ("spelling", "name"),
    [
        ("ResNet-50", "resnet50"),
        ("resnet_152", "resnet152"),
        ("VGG-16", "vgg16"),
        ("InceptionV3", "inception-v3"),
        ("gpt2-small", "gpt2"),
        ("GPT-2 XL", "gpt2-xl"),
        ("bert-large-uncased", "bert-large"),
        ("GPT-3 1.3B", "gpt3-1.3b"),
        ("GPT-3 13B", "gpt3-13b"),
        ("GPT-3", "gpt3-175b"),
        ("ResNet-50 v1.5", "resnet50"),
        ("LLaMA-2 70B", "llama2-70b"),
        ("ViT-B/16", "vit-b16"),
        ("Qwen2.5-7B", "qwen2-7b"),
        ("Llama 3.3 70B", "llama3.1-70b"),
        ("VGG-16 (CIFAR-10)", "vgg16-cifar"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "llama3-8b"),
        ("meta-llama/Llama-2-7b-chat-hf", "llama2-7b"),
        ("mistralai/Mistral-7B-v0.1", "mistral-7b"),
        ("google-bert/bert-base-uncased", "bert-base"),
    ],
)
def test_spellings(spelling, name):
    assert canonical_name(spelling) == name
    assert build_model(spelling).name == name


def test_no_two_names_are_spelt_alike():
    assert all(canonical_name(name) == name for name in MODELS)


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(
        UnknownNameError,
        match=r"must be a known model, but got 'resnet51' \(did you mean 'resnet50'\?\)",
    ):
        build_model("resnet51")


def test_a_file_is_no_name():
    with pytest.raises(DpsimError, match=r"or a file as {config: a/config.json}, but got"):
        canonical_name("a/config.json")


@pytest.mark.parametrize("tokens", [0, -1, 513])
def test_sequence_length_out_of_range(tokens):
    with pytest.raises(
        DpsimError, match=f"must be from 1 to 512 tokens for this model, but got {tokens}$"
    ):
        build_model("bert-base", tokens)


def test_sequence_length_of_an_image():
    with pytest.raises(DpsimError, match="must be left out for a model of images, but got 128"):
        build_model("alexnet", 128)


def test_repr_says_what_it_is():
    assert (
        repr(build_model("alexnet"))
        == "<Model alexnet: 20 layers, 61,100,840 parameters, per 224x224 image>"
    )
