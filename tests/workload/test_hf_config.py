import json

import pytest

from dpsim.base.errors import DpsimError
from dpsim.workload import build_model
from dpsim.workload.models.hf_config import from_config

BERT = {
    "model_type": "bert",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "vocab_size": 30522,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}
GPT2 = {
    "model_type": "gpt2",
    "n_embd": 768,
    "n_layer": 12,
    "n_head": 12,
    "n_positions": 1024,
    "vocab_size": 50257,
    "n_inner": None,
}
LLAMA = {
    "model_type": "llama",
    "hidden_size": 8192,
    "num_hidden_layers": 80,
    "num_attention_heads": 64,
    "num_key_value_heads": 8,
    "intermediate_size": 28672,
    "vocab_size": 32000,
    "max_position_embeddings": 4096,
}
VIT = {
    "model_type": "vit",
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "image_size": 224,
    "patch_size": 16,
    "num_labels": 1000,
}
MAMBA = {
    "model_type": "mamba",
    "hidden_size": 768,
    "num_hidden_layers": 24,
    "vocab_size": 50280,
    "expand": 2,
    "time_step_rank": "auto",
}
FAMILIES = [
    (BERT, "bert-base"),
    (GPT2, "gpt2"),
    (LLAMA, "llama2-70b"),
    (MAMBA, "mamba-130m"),
    (VIT, "vit-b16"),
]


@pytest.fixture
def entry(tmp_path):
    def read(values):
        path = tmp_path / "config.json"
        path.write_text(values if isinstance(values, str) else json.dumps(values))
        return from_config(path)

    return read


@pytest.mark.parametrize(("values", "name"), FAMILIES)
def test_a_configuration_is_the_catalogue_s_model(entry, values, name):
    assert entry(values).build().layers == build_model(name).layers


@pytest.mark.parametrize(
    ("change", "parameters"),
    [
        # Mistral 7B v0.1, Qwen2 7B (biases of queries, keys and values), Llama 3.2 1B (tied)
        (
            {
                "model_type": "mistral",
                "hidden_size": 4096,
                "num_hidden_layers": 32,
                "num_attention_heads": 32,
            }
            | {"intermediate_size": 14336, "max_position_embeddings": 32768},
            7_241_732_096,
        ),
        (
            {
                "model_type": "qwen2",
                "hidden_size": 3584,
                "num_hidden_layers": 28,
                "num_attention_heads": 28,
            }
            | {"num_key_value_heads": 4, "intermediate_size": 18944, "vocab_size": 152064},
            7_615_616_512,
        ),
        (
            {
                "hidden_size": 2048,
                "num_hidden_layers": 16,
                "num_attention_heads": 32,
                "head_dim": 64,
            }
            | {"intermediate_size": 8192, "vocab_size": 128256, "tie_word_embeddings": True},
            1_235_814_400,
        ),
    ],
)
def test_published_counts_of_llama_s_like(entry, change, parameters):
    assert entry(LLAMA | change).build().parameters == parameters


def test_the_name_is_the_configuration_s(entry):
    assert (
        entry(LLAMA | {"_name_or_path": "meta-llama/Llama-2-70b"}).build(8).name
        == "meta-llama/Llama-2-70b"
    )


def test_long_models_have_a_usual_default_length(entry):
    long = entry(LLAMA | {"max_position_embeddings": 131072, "num_hidden_layers": 1})
    assert long.build().sample == "4096 tokens"
    assert long.build(131072).sample == "131072 tokens"


@pytest.mark.parametrize(
    ("implementation", "fused"), [("eager", False), ("sdpa", True), ("flash_attention_2", True)]
)
def test_the_kind_of_attention_can_be_set(entry, implementation, fused):
    model = entry(BERT | {"attn_implementation": implementation}).build()
    assert any(layer.name.endswith(".softmax") for layer in model.layers) != fused


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ("", "must be JSON, but: Expecting value"),
        ("[1]", 'must be a JSON object, such as {"model_type": "llama"}'),
        ({}, "model_type is missing (known: bert, gemma, gemma2, "),
        (
            {"model_type": "lama"},
            "must be a known model_type, but got 'lama' (did you mean 'llama'?)",
        ),
        ({"model_type": ["bert"]}, "must be a known model_type, but got ['bert']"),
        ({**BERT, "hidden_size": None}, "hidden_size is missing"),
        (
            {**BERT, "num_attention_heads": 7},
            "hidden_size must be a multiple of num_attention_heads, but got 768 and 7",
        ),
        ({**BERT, "vocab_size": -1}, "vocab_size must be a positive integer, but got -1"),
        ({**BERT, "vocab_size": 10**30}, "vocab_size must be a positive integer, but got 1000"),
        (
            {**BERT, "attn_implementation": "magic"},
            "attn_implementation must be one of eager, sdpa",
        ),
        ({**GPT2, "n_layer": 1.5}, "n_layer must be a positive integer, but got 1.5"),
        (
            {**GPT2, "tie_word_embeddings": "yes"},
            "tie_word_embeddings must be true or false, but got 'yes'",
        ),
        (
            {**LLAMA, "num_key_value_heads": 7},
            "num_attention_heads must be a multiple of num_key_value_heads, but got 64 and 7",
        ),
        (
            {**LLAMA, "attention_bias": True},
            "attention_bias must be false: such biases are not modelled",
        ),
        (
            {**VIT, "patch_size": 15},
            "image_size must be a multiple of patch_size, but got 224 and 15",
        ),
    ],
)
def test_broken_configurations(entry, tmp_path, values, message):
    with pytest.raises(DpsimError) as caught:
        entry(values)
    assert str(caught.value).startswith(f"{tmp_path / 'config.json'}: {message}")
