"""Scenarios from YAML of Axolotl, LLaMA-Factory, torchtune and Composer, in their own words."""

import pytest
from imported import DATA

from dpsim import load_scenario

FILES = {
    "axolotl": "axolotl.yml",
    "llama-factory": "llama_factory.yaml",
    "torchtune": "torchtune.yaml",
    "composer": "composer.yaml",
}

TUNED = "model: {{_component_: torchtune.models.llama3_1.lora_llama3_1_8b, {adapters}}}\n"


def imported(dpsim, tmp_path, program, text=None):
    file = tmp_path / FILES[program]
    file.write_text((DATA / FILES[program]).read_text() if text is None else text)
    requested = ("--model", "llama3-8b", "--nodes", "1", "--gpus-per-node", "8")
    return dpsim("import", program, file, *requested, "-o", tmp_path / "s.yaml")


EXPECTED = {
    "axolotl": {"batch_per_gpu": 2, "gradient_accumulation": 4, "sequence_length": 4096},
    "llama-factory": {"batch_per_gpu": 1, "gradient_accumulation": 2, "sequence_length": 2048},
    "torchtune": {"batch_per_gpu": 2, "parameter_dtype": "bf16", "checkpoint": "full"},
    "composer": {"batch_per_gpu": 4, "gradient_accumulation": 2, "checkpoint": "full"},
}


@pytest.mark.parametrize("program", FILES)
def test_what_a_file_says_is_in_the_scenario(dpsim, tmp_path, program):
    code, _, err = imported(dpsim, tmp_path, program)
    assert code == 0, err
    workload = load_scenario(tmp_path / "s.yaml").workload
    assert workload.precision == "bf16"
    assert {name: getattr(workload, name) for name in EXPECTED[program]} == EXPECTED[program]


def test_only_adapters_are_trained(dpsim, tmp_path):
    imported(dpsim, tmp_path, "axolotl")
    assert load_scenario(tmp_path / "s.yaml").workload.trainable.lora.rank == 32


@pytest.mark.parametrize(
    ("program", "text", "on"),
    [
        ("axolotl", "adapter: lora\nlora_r: 8\n", "attention"),
        ("axolotl", "adapter: lora\nlora_r: 8\nlora_target_linear: true\n", "all-linear"),
        ("llama-factory", "finetuning_type: lora\n", "all-linear"),
        ("llama-factory", "finetuning_type: lora\nlora_target: q_proj,v_proj\n", "attention"),
        ("torchtune", TUNED.format(adapters="lora_rank: 8"), "attention"),
        ("torchtune", TUNED.format(adapters="apply_lora_to_mlp: true"), "all-linear"),
    ],
)
def test_adapters_are_beside_the_products_that_the_file_names(dpsim, tmp_path, program, text, on):
    code, _, err = imported(dpsim, tmp_path, program, text)
    assert code == 0, err
    lora = load_scenario(tmp_path / "s.yaml").workload.trainable.lora
    assert (lora.rank, lora.on) == (8, on)


def test_torchtunes_components_name_model_and_loss(dpsim, tmp_path):
    text = TUNED.format(adapters="lora_rank: 8, lora_alpha: 16")
    (tmp_path / "t.yaml").write_text(
        f"{text}loss: {{_component_: torchtune.modules.loss.CEWithChunkedOutputLoss}}\n"
    )
    out = tmp_path / "s.yaml"
    code, _, err = dpsim("import", "torchtune", tmp_path / "t.yaml", "--nodes", "1", "-o", out)
    assert code == 0, err
    workload = load_scenario(out).workload
    assert (workload.model, workload.cross_entropy) == ("llama3.1-8b", "chunked")
    assert "ignored: model.lora_alpha" in err


@pytest.mark.parametrize(
    ("program", "text", "named"),
    [
        ("axolotl", "sequence_len: 64\n", "sequence_length 64 (sequence_len)"),
        ("torchtune", "tokenizer: {max_seq_len: 64}\n", "64 (tokenizer.max_seq_len)"),
        ("torchtune", "tokenizer: {max_seq_len: 64, path: x}\n", "ignored: tokenizer.path: "),
        ("composer", "precision: fp32\n", "taken: workload.precision fp32 (precision)"),
        (
            "composer",
            "fsdp_config: {sharding_strategy: SHARD_GRAD_OP}\n",
            "stage 3 (fsdp_config.sharding_strategy)",
        ),
    ],
)
def test_what_is_taken_and_ignored_has_the_names_of_the_file(dpsim, tmp_path, program, text, named):
    code, _, err = imported(dpsim, tmp_path, program, text)
    assert code == 0, err
    assert named in err


@pytest.mark.parametrize("text", ["fsdp: [full_shard, auto_wrap]", "fsdp: full_shard auto_wrap"])
def test_fsdp_is_a_list_or_a_text(dpsim, tmp_path, text):
    code, _, err = imported(dpsim, tmp_path, "axolotl", f"{text}\n")
    assert code == 0, err
    aggregation = load_scenario(tmp_path / "s.yaml").strategy.aggregation
    assert (aggregation.kind, aggregation.stage) == ("sharded", 3)


@pytest.mark.parametrize(
    ("program", "text", "kernels"),
    [
        ("axolotl", "optimizer: adamw_torch_fused\n", "fused"),
        ("axolotl", "optimizer: adamw_torch\n", None),
        ("torchtune", "optimizer: {_component_: torch.optim.AdamW, fused: true}\n", "fused"),
    ],
)
def test_a_fused_optimizer_has_fused_kernels(dpsim, tmp_path, program, text, kernels):
    assert imported(dpsim, tmp_path, program, text)[0] == 0
    assert load_scenario(tmp_path / "s.yaml").workload.optimizer_kernels == kernels


@pytest.mark.parametrize(
    ("program", "text", "attention", "line"),
    [
        ("axolotl", "flash_attention: true\n", "flash", "taken: workload.attention flash"),
        ("axolotl", "attn_implementation: eager\n", "unfused", "taken: workload.attention"),
        ("axolotl", "flash_attention: false\n", None, "ignored: flash_attention = false: "),
        ("llama-factory", "flash_attn: fa2\n", "flash", "taken: workload.attention flash"),
        ("llama-factory", "flash_attn: auto\n", None, "ignored: flash_attn: auto: "),
        ("axolotl", "sample_packing: true\n", None, "ignored: sample_packing: all sequences"),
        ("axolotl", "lora_dropout: 0.1\n", None, "ignored: lora_dropout: dropout is not"),
    ],
)
def test_attention_is_imported_and_the_rest_is_reported(
    dpsim, tmp_path, program, text, attention, line
):
    code, _, err = imported(dpsim, tmp_path, program, text)
    assert code == 0, err
    assert load_scenario(tmp_path / "s.yaml").workload.attention == attention
    assert line in err


def test_composers_optimizer_is_read(dpsim, tmp_path):
    _, _, err = imported(dpsim, tmp_path, "composer", "optimizer: {name: decoupled_lionw}\n")
    assert (
        "assumed: workload.optimizer adamw (optimizer.name decoupled_lionw is not simulated)" in err
    )


@pytest.mark.parametrize(
    ("program", "text"),
    [
        ("axolotl", "optimizer: adamw_bnb_8bit\n"),
        ("llama-factory", "optim: paged_adamw_8bit\n"),
        ("torchtune", "optimizer: {_component_: bitsandbytes.optim.PagedAdamW8bit}\n"),
    ],
)
def test_state_in_8_bits_is_taken_over(dpsim, tmp_path, program, text):
    code, _, err = imported(dpsim, tmp_path, program, text)
    assert code == 0, err
    assert load_scenario(tmp_path / "s.yaml").workload.optimizer == "adamw-8bit"
    assert ("no time here" in err) == ("paged" in text.lower())


REFUSED = {
    "axolotl": [
        ("adapter: qlora\n", "4 bits"),
        ("tensor_parallel_size: 2\n", "must be 1"),
        ("micro_batch_size: many\n", "axolotl.yml: micro_batch_size must be"),
    ],
    "llama-factory": [("finetuning_type: lora\nlora_rank: many\n", "lora_rank must be")],
    "torchtune": [
        ("tensor_parallel_size: 4\n", "must be 1"),
        ("batch_size: none\n", "batch"),
        ("model: {_component_: torchtune.models.llama3.qlora_llama3_8b}\n", "4 bits"),
    ],
    "composer": [("precision: [amp]\n", "precision"), ("- a\n", "")],
}


@pytest.mark.parametrize(
    ("program", "text", "rule"),
    [(program, *each) for program, several in REFUSED.items() for each in several],
)
def test_what_data_parallelism_is_not_is_one_line_and_code_2(dpsim, tmp_path, program, text, rule):
    code, out, err = imported(dpsim, tmp_path, program, text)
    assert (code, out) == (2, "")
    assert len(err.splitlines()) == 1
    assert rule in err
