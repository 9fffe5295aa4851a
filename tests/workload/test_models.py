import csv
import time
from pathlib import Path

import numpy as np
import pytest

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.workload import KINDS, MODELS, build_model, canonical_name
from dpsim.workload.models.gpt import gpt

# Parameters, parameter tensors, and forward and backward FLOP per sample, as torch 2.13's
# parameters() and torch.utils.flop_counter count them on torchvision 0.28's and transformers 5.23's
# models (eager attention, 128 or 1,024 tokens).
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


# Parameters of the rest: of torchvision, timm, transformers, ultralytics and the published
# checkpoints; where they are the sum of a published description, its file of the catalogue shows
# the terms.
PARAMETERS = {
    "vgg19": 143_667_240,
    "vgg16-cifar": 14_728_266,
    "resnet18": 11_689_512,
    "resnet34": 21_797_672,
    "resnet18-cifar": 11_173_962,
    "resnet20-cifar": 269_722,
    "resnet32-cifar": 464_154,
    "resnet110-cifar": 1_727_962,
    "googlenet": 6_624_904,
    "inception-v4": 42_679_816,
    "densenet161": 28_681_000,
    "densenet201": 20_013_928,
    "vit-b16": 86_567_656,
    "vit-l16": 304_326_632,
    "ssd300": 22_894_902,
    "yolov3": 61_949_149,
    "yolov3-voc": 61_626_049,
    "neumf": 31_832_577,
    "neumf-ml1m": 1_602_657,
    "gpt3-125m": 125_226_240,
    "gpt3-350m": 355_871_744,
    "gpt3-760m": 760_300_032,
    "gpt3-1.3b": 1_315_723_264,
    "gpt3-2.7b": 2_651_553_280,
    "gpt3-6.7b": 6_658_404_352,
    "gpt3-13b": 12_853_386_240,
    "gpt3-175b": 174_604_259_328,
    "llama-7b": 6_738_415_616,
    "llama-13b": 13_015_864_320,
    "llama-65b": 65_285_660_672,
    "llama2-7b": 6_738_415_616,
    "llama2-13b": 13_015_864_320,
    "llama2-70b": 68_976_648_192,
    "llama2-34b": 33_743_970_304,
    "llama3-8b": 8_030_261_248,
    "llama3-70b": 70_553_706_496,
    "llama3.1-8b": 8_030_261_248,
    "llama3.1-70b": 70_553_706_496,
    "llama3.1-405b": 405_853_388_800,
    "llama3.2-1b": 1_235_814_400,
    "llama3.2-3b": 3_212_749_824,
    "mpt-125m": 125_311_488,
    "mpt-350m": 355_985_408,
    "mpt-760m": 760_470_528,
    "mpt-1b": 1_315_950_592,
    "mpt-3b": 2_651_837_440,
    "mpt-7b": 6_658_859_008,
    "mpt-13b": 12_853_954_560,
    "mpt-30b": 29_975_214_080,
    "mpt-70b": 64_862_437_376,
    "mistral-7b": 7_241_732_096,
    "mixtral-8x7b": 46_702_792_704,
    "mixtral-8x22b": 140_630_071_296,
    "qwen2-0.5b": 494_032_768,
    "qwen2-1.5b": 1_543_714_304,
    "qwen2-7b": 7_615_616_512,
    "qwen2-72b": 72_706_203_648,
    "qwen2.5-3b": 3_085_938_688,
    "qwen2.5-14b": 14_770_033_664,
    "qwen2.5-32b": 32_763_876_352,
    "qwen3-0.6b": 596_049_920,
    "qwen3-1.7b": 1_720_574_976,
    "qwen3-4b": 4_022_468_096,
    "qwen3-8b": 8_190_735_360,
    "qwen3-14b": 14_768_307_200,
    "qwen3-32b": 32_762_123_264,
    "qwen3-30b-a3b": 30_532_122_624,
    "gemma-2b": 2_506_172_416,
    "gemma-7b": 8_537_680_896,
    "gemma2-2b": 2_614_341_888,
    "gemma2-9b": 9_241_705_984,
    "gemma2-27b": 27_227_128_320,
    "gemma3-1b": 999_885_952,
    "phi-3-mini": 3_821_079_552,
    "phi-4": 14_659_507_200,
    "olmo-1b": 1_176_764_416,
    "olmo-7b": 6_888_095_744,
    "olmo2-7b": 7_298_617_344,
    "olmo2-13b": 13_716_198_400,
    "gpt-neox-20b": 20_554_567_680,
    "pythia-160m": 162_322_944,
    "pythia-410m": 405_334_016,
    "pythia-1b": 1_011_781_632,
    "pythia-1.4b": 1_414_647_808,
    "pythia-2.8b": 2_775_208_960,
    "pythia-6.9b": 6_857_302_016,
    "pythia-12b": 11_846_072_320,
    "phi-1.5": 1_418_270_720,
    "phi-2": 2_779_683_840,
    "modernbert-base": 149_014_272,
    "modernbert-large": 394_781_696,
    "whisper-tiny": 37_760_640,
    "whisper-base": 72_593_920,
    "whisper-small": 241_734_912,
    "whisper-medium": 763_857_920,
    "whisper-large": 1_543_304_960,
    "vit-b32": 88_224_232,
    "vit-l32": 306_535_400,
    "vit-h14": 632_045_800,
    "transformer-big": 210_874_368,
    "transformer-xl-base": 191_950_298,
    "transformer-xl-large": 285_167_482,
    "gnmt": 160_671_297,
    "lstm-ptb": 51_034_000,
    "deepspeech2": 41_187_904,
    "deepspeech2-large": 127_948_528,
}

# The published table's names, and the relative error allowed: more than a percent where it rounds
# or counts other things.
TABLE = {
    "AlexNet (one-tower, torchvision)": ("alexnet", 0.01),
    "VGG-16": ("vgg16", 0.01),
    "VGG-19": ("vgg19", 0.01),
    "ResNet-18": ("resnet18", 0.01),
    "ResNet-34": ("resnet34", 0.01),
    "ResNet-50": ("resnet50", 0.01),
    "ResNet-101": ("resnet101", 0.01),
    "ResNet-152": ("resnet152", 0.01),
    "Inception-v3": ("inception-v3", 0.01),
    "Inception-v4": ("inception-v4", 0.01),
    "GoogLeNet": ("googlenet", 0.01),
    "DenseNet-161": ("densenet161", 0.01),
    "DenseNet-201": ("densenet201", 0.01),
    "ResNet-20 (CIFAR)": ("resnet20-cifar", 0.01),
    "ResNet-32 (CIFAR)": ("resnet32-cifar", 0.01),
    "ResNet-110 (CIFAR)": ("resnet110-cifar", 0.01),
    "ResNet-18 (CIFAR variant)": ("resnet18-cifar", 0.01),
    "BERT-base": ("bert-base", 0.01),
    "BERT-large": ("bert-large", 0.02),  # 330 is rounded
    "BERT-large (counted)": ("bert-large", 0.01),
    "GPT-2 small": ("gpt2", 0.01),
    "GPT-2 medium": ("gpt2-medium", 0.01),
    "GPT-2 large": ("gpt2-large", 0.01),
    "GPT-2 XL": ("gpt2-xl", 0.01),
    "GPT-3 175B": ("gpt3-175b", 0.01),
    "Transformer-XL base (DLE)": ("transformer-xl-base", 0.01),
    "Transformer-XL large (DLE)": (
        "transformer-xl-large",
        0.12,
    ),  # from memory; the checkpoint of 1.14 GB holds 285 M
    "GNMT v2": ("gnmt", 0.01),
    "LSTM-PTB 2x1500 (DGC gradient size)": ("lstm-ptb", 0.01),
    "DeepSpeech GRU 7x1200 (DGC gradient size)": ("deepspeech2-large", 0.01),
    "YOLOv3": ("yolov3", 0.01),
}
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
    model, said = build_model(name), ROWS[row]
    rounding = (
        0.005 if name.endswith("cifar") or float(said["params_M"]) < 10 else 0.0
    )  # in millions: two digits are given
    assert model.parameters / 1e6 == pytest.approx(
        float(said["params_M"]), rel=tolerance, abs=rounding
    )
    if (
        said["fwd_GFLOP_per_sample"].replace(".", "").isdigit()
    ):  # the table's figures are multiply-adds
        assert model.forward_flop / 2e9 == pytest.approx(
            float(said["fwd_GFLOP_per_sample"]), rel=0.02
        )


@pytest.mark.parametrize("name", ["gpt3-175b", "llama2-70b", "resnet152", "densenet201"])
def test_large_models_build_in_milliseconds(name):
    best = min(_seconds(lambda: build_model(name)) for _ in range(5))
    assert best < 0.05


def test_ten_trillion_parameters_build_in_milliseconds():
    built = []
    assert _seconds(lambda: built.append(gpt("huge", 128, 80_000, 128, 2048, positions=1024))) < 0.2
    assert built[0].parameters > 9.8e12
    assert int(built[0].tensors().elements.sum()) == built[0].parameters


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
        and name != "qwen3-30b-a3b"
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
    assert model.tensors().elements.tolist() == [
        15_000_000,
        *[9_000_000, 9_000_000, 6000, 6000] * 2,
        10_000,
    ]


@pytest.mark.parametrize("name", COUNTED)
def test_totals_equal_what_torch_counts(name):
    model = build_model(name)
    assert (
        model.parameters,
        len(model.tensors().elements),
        model.forward_flop,
        model.backward_flop,
    ) == COUNTED[name]


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
    first = next(layer for layer in model.layers if layer.forward_flop)
    unlearned = first.forward_flop if first.kind == "conv" else 0
    fused = [layer for layer in model.layers if layer.backward_flop > 2 * layer.forward_flop]
    assert {layer.kind for layer in fused} <= {"attention"}
    again = sum(layer.forward_flop for layer in fused)
    assert (
        model.backward_flop == 2 * model.forward_flop - unlearned + again // 2
    )  # a fused kernel computes its scores anew


def test_tensors_of_resnet50():
    model = build_model("resnet50")
    elements, layer = model.tensors()
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
    elements = build_model("gpt2").tensors().elements[2:14]
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
