"""The catalogue's families beside their reference implementations of the transformers library.

Small ones of each family: the same tensors, and the same FLOP layer by layer, forward and backward.
"""

import json

import pytest

from dpsim.base.errors import DpsimError
from dpsim.workload import WorkloadConfig
from dpsim.workload.models import from_config
from dpsim.workload.models.bart import bart
from dpsim.workload.models.bert import bert
from dpsim.workload.models.gpt import gpt
from dpsim.workload.models.llama import llama
from dpsim.workload.models.modernbert import modernbert
from dpsim.workload.models.neox import neox, phi
from dpsim.workload.models.whisper import whisper

pytestmark = [
    pytest.mark.torch,
    pytest.mark.transformers,
    pytest.mark.filterwarnings("default"),  # those of torch and transformers are not ours
]

WORDS, WIDTH, INNER, BLOCKS, HEADS, TOKENS = 51_000, 64, 160, 2, 4, 32
SIZES = {
    "vocab_size": WORDS,
    "hidden_size": WIDTH,
    "intermediate_size": INNER,
    "num_hidden_layers": BLOCKS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": 512,
}
GROUPS = {"num_key_value_heads": 2}


def of_llama_s(**more):
    return llama("small", BLOCKS, WIDTH, HEADS, INNER, TOKENS, words=WORDS, **more)


# Of each family: the configuration, its class where the library would take another, and ours.
FAMILIES = {
    "llama": (
        {**SIZES, **GROUPS},
        "LlamaForCausalLM",
        lambda: of_llama_s(groups=2),
    ),
    "mistral": (
        {**SIZES, **GROUPS, "sliding_window": 4096},
        "MistralForCausalLM",
        lambda: of_llama_s(groups=2, window=4096),
    ),
    "qwen2": (
        {**SIZES, **GROUPS, "tie_word_embeddings": True},
        "Qwen2ForCausalLM",
        lambda: of_llama_s(groups=2, biases=True, tied=True),
    ),
    "qwen3": (
        {**SIZES, **GROUPS, "head_dim": 32},
        "Qwen3ForCausalLM",
        lambda: of_llama_s(groups=2, head=32, query_norms="head"),
    ),
    "gemma": (
        {**SIZES, "num_key_value_heads": 1, "head_dim": 32, "tie_word_embeddings": True},
        "GemmaForCausalLM",
        lambda: of_llama_s(groups=1, head=32, tied=True),
    ),
    "gemma2": (
        {**SIZES, **GROUPS, "head_dim": 32, "tie_word_embeddings": True},
        "Gemma2ForCausalLM",
        lambda: of_llama_s(groups=2, head=32, tied=True, norms="both", fused=False),
    ),
    "gemma3_text": (
        {**SIZES, **GROUPS, "head_dim": 32, "tie_word_embeddings": True},
        "Gemma3ForCausalLM",
        lambda: of_llama_s(groups=2, head=32, tied=True, norms="both", query_norms="head"),
    ),
    "phi3": (
        {**SIZES, **GROUPS},
        "Phi3ForCausalLM",
        lambda: of_llama_s(groups=2, packed=True),
    ),
    "olmo": (
        {**SIZES, "tie_word_embeddings": True},
        "OlmoForCausalLM",
        lambda: of_llama_s(norm_weights=False, tied=True),
    ),
    "olmo2": (
        {**SIZES, "pad_token_id": 1},
        "Olmo2ForCausalLM",
        lambda: of_llama_s(norms="after", query_norms="width"),
    ),
    "mixtral": (
        {**SIZES, **GROUPS, "num_local_experts": 8, "num_experts_per_tok": 2},
        "MixtralForCausalLM",
        lambda: of_llama_s(groups=2, experts=(8, 2)),
    ),
    "qwen3_moe": (
        {**SIZES, **GROUPS, "head_dim": 32, "num_experts": 16, "num_experts_per_tok": 4}
        | {"moe_intermediate_size": INNER},
        "Qwen3MoeForCausalLM",
        lambda: of_llama_s(groups=2, head=32, query_norms="head", experts=(16, 4)),
    ),
    "gpt_neox": (
        SIZES,
        "GPTNeoXForCausalLM",
        lambda: neox("small", BLOCKS, WIDTH, HEADS, WORDS, TOKENS, inner=INNER),
    ),
    "phi": (
        SIZES,
        "PhiForCausalLM",
        lambda: phi("small", BLOCKS, WIDTH, HEADS, WORDS, TOKENS, inner=INNER),
    ),
    "gpt2": (
        {"vocab_size": WORDS, "n_embd": WIDTH, "n_layer": BLOCKS, "n_head": HEADS}
        | {"n_positions": 512},
        "GPT2LMHeadModel",
        lambda: gpt("small", BLOCKS, WIDTH, HEADS, TOKENS, positions=512, words=WORDS, fused=True),
    ),
    "bert": (
        SIZES,
        "BertModel",
        lambda: bert(
            "small",
            BLOCKS,
            WIDTH,
            HEADS,
            TOKENS,
            positions=512,
            words=WORDS,
            inner=INNER,
            fused=True,
        ),
    ),
    "bart": (
        {"d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": WORDS}
        | {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
        | {"encoder_ffn_dim": INNER, "decoder_ffn_dim": INNER, "max_position_embeddings": 512},
        "BartForConditionalGeneration",
        lambda: bart(
            "small", 2, WIDTH, HEADS, TOKENS, inner=INNER, words=WORDS, positions=512, fused=True
        ),
    ),
    "modernbert": (
        {**SIZES, "vocab_size": 50_368, "num_hidden_layers": 4},
        "ModernBertModel",
        lambda: modernbert("small", 4, WIDTH, HEADS, INNER, TOKENS),
    ),
    "whisper": (
        {"d_model": WIDTH, "encoder_layers": 2, "decoder_layers": 2, "vocab_size": 51_865}
        | {"encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS}
        | {"encoder_ffn_dim": 4 * WIDTH, "decoder_ffn_dim": 4 * WIDTH},
        "WhisperForConditionalGeneration",
        lambda: whisper("small", 2, WIDTH, HEADS, TOKENS),
    ),
}


@pytest.fixture
def traced(tmp_path):
    """What the library's model of a configuration becomes, whatever dpsim would build itself."""

    def call(family, values, kind):
        from dpsim.workload.models.hf_library import library_entry

        source = {"model_type": family, "architectures": [kind], **values}
        return library_entry(source, "config.json", family, []).build(TOKENS)

    return call


def flop_by_layer(model):
    """Forward and backward FLOP by the name that both sides have for a layer."""
    found = {}
    for layer in model.layers:
        if layer.forward_flop:
            name = layer.name.split(".experts")[0]
            for prefix in ("model.", "gpt_neox.", "transformer."):
                name = name.removeprefix(prefix)
            for part in (".scores", ".context"):
                name = name.removesuffix(part)
            before = found.get(name, (0, 0))
            found[name] = (before[0] + layer.forward_flop, before[1] + layer.backward_flop)
    return found


def elements(model):
    """Of all tensors, also those that the library does not train: Whisper's sinusoids."""
    return sorted(each for layer in model.layers for each in layer.parameters)


@pytest.mark.parametrize("family", FAMILIES)
def test_tensors_and_flop_by_layer_are_the_reference_implementation_s(traced, family):
    values, kind, ours = FAMILIES[family]
    reference, built = traced(family, values, kind), ours()
    assert elements(reference) == elements(built)
    assert sorted(flop_by_layer(reference).values()) == sorted(flop_by_layer(built).values())
    # BART asks whether a score overflowed.
    assert reference.notes == () or family == "bart"


@pytest.mark.parametrize(
    "family", [name for name in FAMILIES if name not in ("bart", "modernbert", "whisper")]
)
def test_a_configuration_is_built_without_the_library_as_well(tmp_path, family):
    values, _, ours = FAMILIES[family]
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": family, **values}))
    entry = from_config(path)
    built = entry.build(TOKENS, "unfused" if family == "gemma2" else "flash")
    assert built.parameters == ours().parameters
    assert flop_by_layer(built) == flop_by_layer(ours())


# As users write them: a factory of the library's own class, without its weights.
CLASSES = {
    "llama": ("LlamaForCausalLM", "LlamaConfig"),
    "qwen2": ("Qwen2ForCausalLM", "Qwen2Config"),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config"),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig"),
    "mixtral": ("MixtralForCausalLM", "MixtralConfig"),
}


@pytest.mark.parametrize("family", CLASSES)
def test_import_torch_takes_the_librarys_classes(dpsim, tmp_path, family):
    values, _, _ = FAMILIES[family]
    kind, config = CLASSES[family]
    (tmp_path / "mine.py").write_text(
        f"from transformers import {config}, {kind}\n\n\n"
        f"def build():\n    return {kind}({config}(**{values!r}))\n"
    )
    written = tmp_path / "profile.json"
    code, _, err = dpsim(
        "import", "torch", f"{tmp_path / 'mine.py'}:build", "--input", TOKENS,
        "--dtype", "int64", "-o", written,
    )  # fmt: skip
    assert code == 0, err
    profile = json.loads(written.read_text())
    assert profile["tokens"] == TOKENS
    layers = profile["layers"]
    assert sum(layer["backward_flop"] for layer in layers) > sum(
        layer["forward_flop"] for layer in layers
    )


def test_import_torch_says_what_a_module_asks_of_data_that_a_trace_has_not(dpsim, tmp_path):
    (tmp_path / "mine.py").write_text(
        "from transformers import Wav2Vec2Config, Wav2Vec2Model\n\n\n"
        f"def build():\n    return Wav2Vec2Model(Wav2Vec2Config(**{OTHERS['wav2vec2']!r}))\n"
    )
    code, out, err = dpsim(
        "import", "torch", f"{tmp_path / 'mine.py'}:build", "--input", 16_000, "--json"
    )
    assert code == 0
    assert json.loads(out)["layers"]
    assert "asks for data (nonzero)" in err


# By the library: parameters as its own modules count them, and FLOP of a pass where they
# follow from the sizes.
OTHERS = {
    "opt": {"vocab_size": 1000, "hidden_size": 64, "ffn_dim": 128, "num_hidden_layers": 2}
    | {"num_attention_heads": 4, "word_embed_proj_dim": 64},
    "t5": {"vocab_size": 1000, "d_model": 64, "d_ff": 128, "num_layers": 2, "num_heads": 4}
    | {"d_kv": 16},
    "deberta-v2": {**SIZES, "vocab_size": 1000},
    "deepseek_v3": {
        **SIZES,
        "vocab_size": 1000,
        "num_key_value_heads": 4,
        "moe_intermediate_size": 32,
    }
    | {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_group": 2, "topk_group": 1}
    | {"q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8, "v_head_dim": 16}
    | {"qk_nope_head_dim": 16},
    "wav2vec2": {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2}
    | {"num_attention_heads": 4, "num_conv_pos_embeddings": 16}
    | {"num_conv_pos_embedding_groups": 4},
    "swin": {"embed_dim": 32, "depths": [2, 2], "num_heads": [2, 4]},
    "convnext": {"depths": [1, 1, 2, 1], "hidden_sizes": [16, 32, 64, 128]},
    "resnet": {"embedding_size": 16, "hidden_sizes": [16, 32, 64, 128]},
}


@pytest.mark.parametrize("family", OTHERS)
def test_any_other_configuration_is_built_by_the_library(tmp_path, family):
    import torch
    import transformers

    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": family, **OTHERS[family]}))
    workload = WorkloadConfig.model_validate({"model": {"config": str(path)}, "batch_per_gpu": 2})
    model = workload.build()
    assert model.name == family
    assert 1.3 < model.backward_flop / model.forward_flop < 2.6
    config = transformers.CONFIG_MAPPING[family](**OTHERS[family])
    with torch.device("meta"):
        least = sum(one.numel() for one in transformers.AutoModel.from_config(config).parameters())
    assert least <= model.parameters <= 2.2 * least  # heads come on top


def test_a_configuration_that_nobody_knows(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "qwen4"}))
    with pytest.raises(DpsimError, match="must be a known model_type, but got 'qwen4'"):
        from_config(path)


def test_what_cannot_be_a_family_s_name_is_refused_without_the_library(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "[a](b)"}))
    monkeypatch.delattr("dpsim.workload.models.hf_library.Child")
    with pytest.raises(DpsimError, match=r"must be a known model_type, but got '\[a\]\(b\)'"):
        from_config(path)


def test_without_the_library_the_families_of_dpsim_s_own_are_named(tmp_path, monkeypatch):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "opt"}))
    monkeypatch.setattr("dpsim.workload.models.hf_library.find_spec", lambda name: None)
    with pytest.raises(DpsimError) as caught:
        from_config(path)
    assert "must be a known model_type, but got 'opt'" in str(caught.value)
    assert "any other needs the transformers library" in str(caught.value)
    assert "pip install -e '.[hf]'" in str(caught.value)


def test_sizes_that_cannot_be_are_one_line(tmp_path):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"model_type": "opt", **OTHERS["opt"], "num_attention_heads": 5}))
    with pytest.raises(DpsimError, match=r"config\.json: cannot be built and traced") as caught:
        from_config(path).build(8)
    assert "\n" not in str(caught.value)
