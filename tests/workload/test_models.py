import numpy as np
import pytest

from dpsim.errors import DpsimError, UnknownNameError
from dpsim.workload import KINDS, MODELS, build_model, canonical_name

# Parameters, parameter tensors, and forward and backward FLOP per sample, as torch 2.13's parameters() and
# torch.utils.flop_counter count them on torchvision 0.28's and transformers 5.23's models (eager attention, 128 or 1,024 tokens).
COUNTED = {
    "alexnet": (61_100_840, 16, 2_856_753_920 // 2, 5_432_400_640 // 2),
    "vgg16": (138_357_544, 32, 61_881_057_280 // 2, 123_415_298_048 // 2),
    "resnet50": (25_557_032, 161, 16_356_737_024 // 2, 32_241_418_240 // 2),
    "resnet101": (44_549_160, 314, 31_205_621_760 // 2, 61_939_187_712 // 2),
    "resnet152": (60_192_808, 467, 46_054_506_496 // 2, 91_636_957_184 // 2),
    "inception-v3": (23_834_568, 284, 22_852_864_384 // 2, 45_629_002_112 // 2),
    "bert-base": (109_482_240, 199, 44_696_862_720 // 2, 89_393_725_440 // 2),
    "bert-large": (335_141_888, 391, 157_844_242_432 // 2, 315_688_484_864 // 2),
    "gpt2": (124_439_808, 148, 583_296_614_400 // 2, 1_166_593_228_800 // 2),
    "gpt2-medium": (354_823_168, 292, 1_653_902_147_584 // 2, 3_307_804_295_168 // 2),
    "gpt2-large": (774_030_080, 436, 3_549_141_401_600 // 2, 7_098_282_803_200 // 2),
    "gpt2-xl": (1_557_611_200, 580, 7_013_407_129_600 // 2, 14_026_814_259_200 // 2),
}


def test_every_model_is_counted():
    assert set(COUNTED) == set(MODELS)


@pytest.mark.parametrize("name", MODELS)
def test_totals_equal_what_torch_counts(name):
    model = build_model(name)
    assert (model.parameters, len(model.tensors().elements), model.forward_flop, model.backward_flop) == COUNTED[name]


@pytest.mark.parametrize(
    ("name", "multiply_adds"),
    [("alexnet", 0.714e9), ("vgg16", 15.47e9), ("resnet50", 4.09e9), ("resnet152", 11.51e9), ("inception-v3", 5.71e9)],
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
        assert min(layer.forward_flop, layer.backward_flop, layer.backward_traffic, layer.activations) >= 0, layer
        assert layer.forward_traffic > 0, layer


@pytest.mark.parametrize("name", MODELS)
def test_backward_is_twice_forward_but_the_first_input_gradient(name):
    model = build_model(name)
    first = model.layers[0]
    assert model.backward_flop == 2 * model.forward_flop - (first.forward_flop if first.kind == "conv" else 0)


def test_tensors_of_resnet50():
    model = build_model("resnet50")
    elements, layer = model.tensors()
    assert elements[:3].tolist() == [9408, 64, 64]
    assert elements[-2:].tolist() == [2_048_000, 1000]
    assert [model.layers[i].name for i in layer[:3]] == ["conv1", "bn1", "bn1"]
    assert np.all(np.diff(layer) >= 0)
    assert int(elements.max()) == 512 * 512 * 9
    assert max(tensor for owner in model.layers if owner.kind == "linear" for tensor in owner.parameters) == 2_048_000


def test_tensors_of_a_block_of_gpt2_in_order():
    d = 768
    elements = build_model("gpt2").tensors().elements[2:14]
    assert elements.tolist() == [d, d, 3 * d * d, 3 * d, d * d, d, d, d, 4 * d * d, 4 * d, 4 * d * d, d]


@pytest.mark.parametrize(
    ("name", "blocks", "width"), [("gpt2", 12, 768), ("gpt2-medium", 24, 1024), ("gpt2-large", 36, 1280), ("gpt2-xl", 48, 1600)]
)
@pytest.mark.parametrize("tokens", [1, 128, 1024])
def test_gpt2_is_two_flop_per_matrix_weight_and_token_plus_attention(name, blocks, width, tokens):
    matrices = 12 * blocks * width**2 + 50257 * width
    assert build_model(name, tokens).forward_flop == 2 * tokens * matrices + 4 * blocks * tokens**2 * width


def test_gpt2_is_about_two_flop_per_parameter_and_token():
    model = build_model("gpt2-xl", 16)
    assert model.forward_flop / 16 == pytest.approx(2 * model.parameters, rel=0.01)


def test_output_layer_of_gpt2_owns_no_weights():
    head = next(layer for layer in build_model("gpt2").layers if layer.name == "lm_head")
    assert (head.parameters, head.borrowed) == ((), 50257 * 768)


def test_parameters_do_not_depend_on_the_sequence_length():
    assert build_model("bert-base", 512).parameters == build_model("bert-base", 1).parameters


def test_usual_sequence_lengths():
    assert [build_model(name).sample for name in ("bert-base", "gpt2")] == ["128 tokens", "1024 tokens"]


def test_activations_of_a_transformer_block():
    # Korthikanti et al. 2022: 34 s b h bytes per block in half precision with one-byte masks of dropout; without them 32.
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
    ],
)
def test_spellings(spelling, name):
    assert canonical_name(spelling) == name
    assert build_model(spelling).name == name


def test_unknown_name_suggests_the_nearest():
    with pytest.raises(UnknownNameError, match=r"must be a known model, but got 'resnet51' \(did you mean 'resnet50'\?\)"):
        build_model("resnet51")


@pytest.mark.parametrize("tokens", [0, -1, 513])
def test_sequence_length_out_of_range(tokens):
    with pytest.raises(DpsimError, match=f"must be from 1 to 512 tokens for this model, but got {tokens}$"):
        build_model("bert-base", tokens)


def test_sequence_length_of_an_image():
    with pytest.raises(DpsimError, match="must be left out for a model of images, but got 128"):
        build_model("alexnet", 128)


def test_repr_says_what_it_is():
    assert repr(build_model("alexnet")) == "<Model alexnet: 20 layers, 61,100,840 parameters, per 224x224 image>"
