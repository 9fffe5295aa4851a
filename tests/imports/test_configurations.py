"""Scenarios from DeepSpeed's, accelerate's, Trainer's and torchtitan's configurations."""

import json
import re
from pathlib import Path

import pytest
from json_docs import documented_keys

from dpsim import load_scenario, simulate

DATA = Path(__file__).parent / "data"
FILES = {
    "ds_config.json": "deepspeed",
    "accelerate_fsdp.yaml": "accelerate",
    "trainer_fsdp.yaml": "accelerate",
    "torchtitan_llama3_8b.toml": "torchtitan",
}


@pytest.fixture
def imported(dpsim, tmp_path):
    """The scenario that a file becomes; its text stands in ``imported.text``."""

    def read(name, *options):
        out = tmp_path / "scenario.yaml"
        code, _, err = dpsim("import", FILES[name], DATA / name, *options, "-o", out)
        assert code == 0, err
        read.text = out.read_text()
        return load_scenario(out)

    return read


@pytest.mark.parametrize("name", FILES)
def test_what_is_written_is_a_scenario_that_runs(imported, name):
    scenario = imported(name, "--model", "llama3.2-1b", "--sequence-length", 2048)
    few = scenario.run.model_copy(update={"steps": 2, "warmup": 0})
    assert simulate(scenario.model_copy(update={"run": few})).throughput_samples_per_s > 0


def test_deepspeed(imported):
    scenario = imported("ds_config.json", "--model", "gpt2-xl")
    workload, aggregation = scenario.workload, scenario.strategy.aggregation
    assert (workload.model, workload.precision, workload.optimizer) == ("gpt2-xl", "bf16", "adamw")
    assert (workload.batch_per_gpu, workload.gradient_accumulation) == (4, 4)
    # 256 samples of 4 x 4 on each: 16 workers.
    assert (scenario.cluster.ranks, scenario.global_batch) == (16, 256)
    assert (aggregation.stage, aggregation.weight_bytes) == (2, 2)
    assert aggregation.gradients.sync_each_pass
    assert scenario.strategy.overlap.size_of_buckets == 5e8 * 2
    assert "# train_micro_batch_size_per_gpu" in imported.text
    assert "# - gradient_clipping: clipping is not simulated" in imported.text


def test_accelerate(imported):
    scenario = imported("accelerate_fsdp.yaml", "--model", "llama2-7b", "--batch", "2")
    aggregation = scenario.strategy.aggregation
    assert (scenario.cluster.nodes, scenario.cluster.ranks) == (2, 16)
    assert (aggregation.stage, aggregation.shard_group) == (3, "node")
    assert aggregation.backward_prefetch == "pre"
    assert scenario.workload.checkpoint == "full"
    model = scenario.build_model()
    units = aggregation.units(model)
    blocks = [elements for _, _, elements in units if elements == 202_383_360]
    assert len(blocks) == 32, "a unit a block"


@pytest.mark.parametrize("stage", [0, 1, 2, 3])
def test_accelerates_deepspeed_is_deepspeed(dpsim, tmp_path, stage):
    (tmp_path / "ds.json").write_text(
        json.dumps({"fp16": {"enabled": True}, "zero_optimization": {"stage": stage}})
    )
    (tmp_path / "accelerate.yaml").write_text(
        "distributed_type: DEEPSPEED\nmixed_precision: fp16\n"
        f"deepspeed_config: {{zero_stage: {stage}}}\n"
    )
    strategies = []
    for kind, file in (("deepspeed", "ds.json"), ("accelerate", "accelerate.yaml")):
        code, out, err = dpsim("import", kind, tmp_path / file, "--nodes", 1, "--json")
        assert code == 0, err
        strategies.append(json.loads(out)["scenario"]["strategy"])
    assert strategies[0] == strategies[1]


DS_OF_TRAINER = (DATA / "ds_trainer.json").read_text()


def of_two_files(dpsim, tmp_path, trainer, deepspeed=DS_OF_TRAINER, kind="accelerate"):
    """Import a trainer's file that names a DeepSpeed configuration in its folder."""
    (tmp_path / "configs").mkdir()
    (tmp_path / "configs" / "Zero3.json").write_text(deepspeed)
    (tmp_path / "trainer.yaml").write_text(trainer)
    options = ["--model", "llama3-8b", "--nodes", 1, "-o", tmp_path / "s.yaml"]
    return dpsim("import", kind, tmp_path / "trainer.yaml", *options)


@pytest.mark.parametrize(
    ("kind", "trainer"),
    [
        ("accelerate", "per_device_train_batch_size: 2\nbf16: true\n"),
        ("axolotl", "micro_batch_size: 2\nsequence_len: 512\nbf16: true\n"),
    ],
)
def test_a_trainer_file_is_read_with_the_deepspeed_file_that_it_names(
    dpsim, tmp_path, kind, trainer
):
    more = "gradient_accumulation_steps: 4\ngradient_checkpointing: true\n"
    named = "deepspeed: configs/Zero3.json\n"
    code, _, err = of_two_files(dpsim, tmp_path, trainer + more + named, kind=kind)
    assert code == 0, err
    scenario = load_scenario(tmp_path / "s.yaml")
    workload, aggregation = scenario.workload, scenario.strategy.aggregation
    assert (workload.batch_per_gpu, workload.gradient_accumulation) == (2, 4)
    assert (workload.precision, workload.checkpoint) == ("bf16", "full")
    assert (aggregation.kind, aggregation.stage, aggregation.weight_bytes) == ("sharded", 3, 2)
    assert aggregation.offload.optimizer == "cpu"
    # What DeepSpeed's file leaves to the trainer is filled in, so there is nothing to say.
    assert "read as if it were left out" not in err
    assert "a configuration of" in (text := (tmp_path / "s.yaml").read_text())
    assert "with configs/Zero3.json of DeepSpeed" in text


def test_accelerates_file_names_a_deepspeed_file(dpsim, tmp_path):
    trainer = "distributed_type: DEEPSPEED\nmixed_precision: fp16\n"
    trainer += "deepspeed_config: {deepspeed_config_file: configs/Zero3.json}\n"
    batch = '"train_micro_batch_size_per_gpu": 8'
    output = DS_OF_TRAINER.replace('"train_micro_batch_size_per_gpu": "auto"', batch)
    code, _, err = of_two_files(dpsim, tmp_path, trainer, output)
    assert code == 0, err
    workload = load_scenario(tmp_path / "s.yaml").workload
    assert (workload.batch_per_gpu, workload.precision) == (8, "fp16")


@pytest.mark.parametrize(
    ("trainer", "deepspeed", "message"),
    [
        ("deepspeed: none.json\n", "{}", "trainer.yaml: deepspeed must name a file"),
        (f"deepspeed: {'x' * 5000}\n", "{}", "trainer.yaml: deepspeed must name a file"),
        ("deepspeed: {stage: 3}\n", "{}", "trainer.yaml: deepspeed must be a text, but got"),
        ("deepspeed: configs/Zero3.json\n", "{", "configs/Zero3.json:1: must be JSON, but"),
        (
            "deepspeed: configs/Zero3.json\nper_device_train_batch_size: 2\n",
            '{"train_micro_batch_size_per_gpu": 4}',
            "configs/Zero3.json: train_micro_batch_size_per_gpu must be auto or 2, as "
            "per_device_train_batch_size says, but got 4",
        ),
        (
            "deepspeed: configs/Zero3.json\n",
            '{"tensor_parallel": {"autotp_size": 4}}',
            "configs/Zero3.json: tensor_parallel.autotp_size must be 1",
        ),
    ],
)
def test_two_incompatible_files_are_a_one_line_error(dpsim, tmp_path, trainer, deepspeed, message):
    code, _, err = of_two_files(dpsim, tmp_path, trainer, deepspeed)
    assert code == 2
    assert message in err
    assert err.count("\n") == 1


def test_buckets_that_are_auto_follow_trainers_rule(dpsim, tmp_path):
    """Hidden size 4,096: reduced by its square, of 2 bytes; gathered by 0.9 of it, of 4."""
    options = ["--model", "llama3-8b", "--nodes", 1, "-o", tmp_path / "s.yaml"]
    assert dpsim("import", "deepspeed", DATA / "ds_trainer.json", *options)[0] == 0
    strategy = load_scenario(tmp_path / "s.yaml").strategy
    assert strategy.overlap.bucket_size == 2 * 4096**2
    assert strategy.aggregation.unit_size == 4 * int(0.9 * 4096**2)


def test_without_a_hidden_size_buckets_are_deepspeeds(dpsim, tmp_path):
    options = ["--model", "resnet50", "--nodes", 1, "-o", tmp_path / "s.yaml"]
    _, _, err = dpsim("import", "deepspeed", DATA / "ds_trainer.json", *options)
    assert load_scenario(tmp_path / "s.yaml").strategy.overlap.bucket_size == 2 * 500_000_000
    assert "DeepSpeed's default; zero_optimization.reduce_bucket_size is auto" in err


def test_deepspeed_reduces_gradients_of_the_precision_in_any_stage(dpsim, tmp_path):
    """Ring of 8: 2 x 7/8 of 2 bytes for each of GPT-2's parameters, in stage 0 as in stage 1."""
    sent = []
    for stage in (0, 1):
        config = {"fp16": {"enabled": True}, "zero_optimization": {"stage": stage}}
        (tmp_path / "ds.json").write_text(json.dumps(config))
        out = tmp_path / "s.yaml"
        options = ["--model", "gpt2", "--nodes", 1, "-o", out]
        assert dpsim("import", "deepspeed", tmp_path / "ds.json", *options)[0] == 0
        scenario = load_scenario(out, ["run.steps=1"])
        sent.append(simulate(scenario).to_json()["bytes_sent_per_worker"])
    parameters = load_scenario(out).build_model().parameters
    assert sent == pytest.approx([2 * 7 / 8 * 2 * parameters] * 2, rel=1e-3)


def test_trainer(imported):
    scenario = imported("trainer_fsdp.yaml", "--nnodes", "1", "--nproc-per-node", "4")
    assert scenario.workload.model == "llama2-7b"
    assert scenario.cluster.ranks == 4
    assert (scenario.workload.batch_per_gpu, scenario.workload.gradient_accumulation) == (2, 8)
    aggregation = scenario.strategy.aggregation
    assert (aggregation.backward_prefetch, aggregation.limit_all_gathers) == ("post", False)
    assert aggregation.unit_size == 4e8


def test_torchtitan(imported):
    scenario = imported("torchtitan_llama3_8b.toml", "--nnodes", "8", "--nproc-per-node", "8")
    workload, aggregation = scenario.workload, scenario.strategy.aggregation
    assert (workload.model, workload.sequence_length) == ("llama3-8b", 8192)
    assert (workload.checkpoint, workload.execution) == ("selective", "compile")
    assert (aggregation.weight_bytes, aggregation.gradients.dtype) == (2, "fp32")
    assert scenario.cluster.ranks == 64


def changed(tmp_path, name, old, new):
    text = (DATA / name).read_text()
    assert old in text
    file = tmp_path / name
    file.write_text(text.replace(old, new))
    return file


@pytest.mark.parametrize(
    ("option", "checkpoint"),
    [('"2"', '{"every": 2}'), ('"op"', '"selective"')],
)
def test_torchtitans_selective_checkpoints(dpsim, tmp_path, option, checkpoint):
    file = changed(
        tmp_path, "torchtitan_llama3_8b.toml", 'ac_option = "op"', f"ac_option = {option}"
    )
    _, out, _ = dpsim("import", "torchtitan", file, "--json")
    assert json.loads(out)["scenario"]["workload"]["checkpoint"] == json.loads(checkpoint)


def test_hybrid_sharding_of_torchtitan(dpsim, tmp_path):
    file = changed(
        tmp_path, "torchtitan_llama3_8b.toml", "replicate_degree = 1", "replicate_degree = 4"
    )
    _, out, _ = dpsim("import", "torchtitan", file, "--nnodes", "4", "--json")
    aggregation = json.loads(out)["scenario"]["strategy"]["aggregation"]
    assert (aggregation["kind"], aggregation["shard_group"]) == ("sharded", 8)
    _, out, _ = dpsim("import", "torchtitan", file, "--nproc-per-node", "4", "--json")
    strategy = json.loads(out)["scenario"]["strategy"]
    assert strategy["aggregation"] == {
        "kind": "allreduce",
        "sync_each_pass": True,
        "library": "nccl",
    }
    # As apply_ddp has it.
    assert strategy["overlap"]["bucket_size"] == f"{100 * 2**20} B"


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        ("ds_config.json", "{", "", ":2: must be JSON, but: "),
        ("ds_config.json", '"stage": 2', '"stage": 7', "zero_optimization.stage must be a whole"),
        ("ds_config.json", ": 256", ": 250", "train_batch_size must be a multiple of"),
        ("ds_config.json", "true}", '"perhaps"}', "bf16.enabled must be true or false, but got"),
        ("accelerate_fsdp.yaml", "HYBRID_SHARD", "SHARD_ALL", "must be one of full_shard"),
        ("accelerate_fsdp.yaml", "num_processes: 16", "num_processes: 15", "must be a multiple"),
        ("accelerate_fsdp.yaml", "fsdp_config:", "fsdp_config: [", "accelerate_fsdp.yaml:"),
        ("trainer_fsdp.yaml", "train_batch_size: 2", "train_batch_size: two", "a whole number"),
        ("torchtitan_llama3_8b.toml", "[model]", "[model", "must be TOML, but: "),
        (
            "torchtitan_llama3_8b.toml",
            "tensor_parallel_degree = 1",
            "tensor_parallel_degree = 8",
            "parallelism.tensor_parallel_degree must be 1, since data parallelism alone",
        ),
        (
            "torchtitan_llama3_8b.toml",
            "shard_degree = -1",
            "shard_degree = 3\nx = 1",
            "--gpus-per-node",
        ),
    ],
)
def test_a_broken_file_is_one_clear_line(dpsim, tmp_path, name, old, new, message):
    text = (DATA / name).read_text()
    assert old in text
    file = tmp_path / name
    file.write_text(text.replace(old, new, 1))
    sizes = ("--nnodes", "1", "--nproc-per-node", "2") if "--gpus" in message else ()
    code, out, err = dpsim("import", FILES[name], file, *sizes)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert name in err


def test_the_json_has_the_documented_keys(dpsim):
    code, out, _ = dpsim("import", "deepspeed", DATA / "ds_config.json", "--json")
    assert code == 0
    answer = json.loads(out)
    assert list(answer) == ["schema_version", "kind", *documented_keys("dpsim import deepspeed")]
    assert {"path", "value", "from"} == set(answer["taken"][0])


# A degree above 1 of each way to divide a model, in the section where a program has it, and in
# others: keys move between versions.
OTHER_DEGREES = [
    ("torchtitan_llama3_8b.toml", "[parallelism]", f"[parallelism]\n{key} = 2\n#", key)
    for key in ("expert_parallel_degree", "expert_tensor_parallel_degree")
] + [
    ("torchtitan_llama3_8b.toml", "[training]", f"[training]\n{key} = 2\n#", key)
    for key in ("tensor_parallel_degree", "pipeline_parallel_degree", "context_parallel_degree")
]
OTHER_DEGREES += [
    ("accelerate_hsdp.yaml", "parallelism_config_tp_size: 1", f"{key}: 2\n  x: 1", key)
    for key in (
        "parallelism_config_tp_size",
        "parallelism_config_sp_size",
        "parallelism_config_ep_size",
    )
]
OTHER_DEGREES += [
    ("accelerate_hsdp.yaml", "cp_size: 1", "cp_size: 8", "parallelism_config_cp_size"),
    ("accelerate_fsdp.yaml", "use_cpu: false", "megatron_lm_tp_degree: 8", "megatron_lm_tp_degree"),
    ("trainer_fsdp.yaml", "bf16: true", "tp_size: 2", "tp_size"),
    ("ds_config.json", '"steps_per_print": 100', '"tensor_parallel": {"autotp_size": 4}', "autotp"),
    ("ds_config.json", '"steps_per_print": 100', '"sequence_parallel_size": 4', "sequence_par"),
]


@pytest.mark.parametrize(("name", "old", "new", "key"), OTHER_DEGREES)
def test_what_is_not_data_parallel_is_refused(dpsim, tmp_path, name, old, new, key):
    kind = "accelerate" if name.startswith("accelerate") else FILES[name]
    code, out, err = dpsim("import", kind, changed(tmp_path, name, old, new))
    assert (code, out) == (2, "")
    assert re.search(
        rf"{key}\w* must be 1, since data parallelism alone is simulated, but got \d\n$", err
    )


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "torchtitan_deepseek_v3_16b.toml",
            "",
            "",
            "model.name and model.flavor must name a model of the catalogue (dpsim catalogue "
            "models), but got 'deepseek_v3 16b': --model NAME says which one to simulate",
        ),
        (
            "trainer_fsdp.yaml",
            "meta-llama/Llama-2-7b",
            "deepseek-ai/DeepSeek-V3",
            "model_name_or_path must name a model of the catalogue",
        ),
        (
            "torchtitan_llama3_8b.toml",
            "[compile]",
            "[fault_tolerance]\nenable = true\n[compile]",
            "fault_tolerance.enable must be false, since torchft's replica groups are not read",
        ),
        (
            "accelerate_fsdp.yaml",
            "use_cpu: false",
            "use_cpu: true",
            "use_cpu must be false, since GPUs are simulated",
        ),
        (
            "accelerate_fsdp.yaml",
            "distributed_type: FSDP",
            "distributed_type: MEGATRON_LM",
            "distributed_type must be one of no, multi_gpu, fsdp, deepspeed, but got 'MEGATRON_LM'",
        ),
        (
            "accelerate_hsdp.yaml",
            "dp_shard_size: 4",
            "dp_shard_size: 2",
            "dp_replicate_size x dp_shard_size must be num_processes (8), but got 2 x 2",
        ),
        (
            "accelerate_fsdp.yaml",
            "distributed_type: FSDP",
            "distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: ds.json}",
            "deepspeed_config.deepspeed_config_file must name a file, by its path from this one",
        ),
        (
            "ds_config.json",
            '"AdamW"',
            '"OneBitAdam"',
            "optimizer.type must be an optimizer that sends whole gradients, but got 'onebitadam'",
        ),
        (
            "trainer_fsdp.yaml",
            "full_shard auto_wrap",
            "half_shard auto_wrap",
            "fsdp must be words such as full_shard, but got 'half_shard'",
        ),
    ],
)
def test_what_is_not_understood_is_refused(dpsim, tmp_path, name, old, new, message):
    kind = name.partition("_")[0]
    kind = {"ds": "deepspeed", "trainer": "accelerate"}.get(kind, kind)
    code, out, err = dpsim("import", kind, changed(tmp_path, name, old, new))
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.parametrize(
    ("name", "old", "new", "line"),
    [
        (
            "trainer_fsdp.yaml",
            "bf16: true",
            'bf16: "auto"',
            "assumed: workload.precision bf16 (bf16 is auto: ",
        ),
        (
            "ds_config.json",
            '"enabled": true',
            '"enabled": "auto"',
            "assumed: workload.precision bf16 (enabled is auto: ",
        ),
        (
            "torchtitan_llama3_8b.toml",
            "seq_len = 8192",
            'dtype = "bfloat16"',
            "ignored: training.dtype = bfloat16: weights, gradients and the optimizer's state are",
        ),
        (
            "torchtitan_llama3_8b.toml",
            "lr = 3e-4",
            "early_step_in_backward = true",
            "ignored: optimizer.early_step_in_backward: the update is simulated after backward",
        ),
        (
            "trainer_fsdp.yaml",
            "adamw_torch_fused",
            "adafactor",
            "assumed: workload.optimizer adamw (optim adafactor is not simulated): ",
        ),
        (
            "trainer_fsdp.yaml",
            "adamw_torch_fused",
            "paged_adamw_8bit",
            "ignored: optim = paged_adamw_8bit: pages that move to the host where memory is short",
        ),
        (
            "accelerate_fsdp.yaml",
            "use_cpu: false",
            "dynamo_config: {dynamo_backend: AOT_EAGER}",
            "ignored: dynamo_config.dynamo_backend = aot_eager: this compiler is not simulated",
        ),
        (
            "torchtitan_llama3_8b.toml",
            "seq_len = 8192",
            "",
            "assumed: workload.sequence_length 2048 (torchtitan's default; --sequence-length N): ",
        ),
        (
            "torchtitan_llama3_8b.toml",
            "lr = 3e-4",
            'implementation = "for-loop"',
            "taken: workload.optimizer_kernels loop (optimizer.implementation)",
        ),
        (
            "accelerate_fsdp.yaml",
            "machine_rank: 0",
            "machine_rank: 1",
            "ignored: compute_environment, machine_rank, main_training_function, ",
        ),
    ],
)
def test_an_approximated_setting_is_reported_with_its_effect(dpsim, tmp_path, name, old, new, line):
    code, _, err = dpsim("import", FILES[name], changed(tmp_path, name, old, new))
    assert code == 0
    assert line in err


@pytest.mark.parametrize(
    ("name", "old", "new", "kept"),
    [
        (
            "ds_config.json",
            '"stage": 2',
            '"stage": 3, "offload_optimizer": {"device": "nvme"}, "offload_param": {"device": "cpu"}',
            {"optimizer": "nvme", "parameters": "cpu"},
        ),
        (
            "accelerate_fsdp.yaml",
            "fsdp_offload_params: false",
            "fsdp_offload_params: true",
            {"optimizer": "cpu", "parameters": "cpu"},
        ),
        (
            "torchtitan_llama3_8b.toml",
            "[training]",
            "[training]\nenable_cpu_offload = true",
            {"optimizer": "cpu", "parameters": "cpu"},
        ),
    ],
)
def test_what_is_offloaded_is_taken_over(dpsim, tmp_path, name, old, new, kept):
    written = tmp_path / "scenario.yaml"
    changed_file = changed(tmp_path, name, old, new)
    code, _, err = dpsim("import", FILES[name], changed_file, "-o", written)
    assert code == 0, err
    offload = load_scenario(written).strategy.aggregation.offload
    assert {part: getattr(offload, part) for part in offload.parts} == kept


@pytest.mark.parametrize(
    ("strategy", "freed", "group"),
    [("FULL_SHARD", True, "all"), ("SHARD_GRAD_OP", False, "all"), ("5", False, "node")],
)
def test_fsdp_frees_weights_after_forward_as_its_strategy_says(
    dpsim, tmp_path, strategy, freed, group
):
    """As FSDP 2 says it by fsdp_reshard_after_forward."""
    text = "distributed_type: FSDP\nfsdp_config: {fsdp_sharding_strategy: " + strategy + "}\n"
    (tmp_path / "fsdp.yaml").write_text(text)
    out = tmp_path / "s.yaml"
    assert dpsim("import", "accelerate", tmp_path / "fsdp.yaml", "--nodes", "2", "-o", out)[0] == 0
    aggregation = load_scenario(out).strategy.aggregation
    assert (aggregation.stage, aggregation.reshard_after_forward) == (3, freed)
    assert aggregation.shard_group == group


def test_trainers_switches_of_ddp_are_taken_over(dpsim, tmp_path):
    text = "bf16: true\nddp_bucket_cap_mb: 50\nddp_find_unused_parameters: true\n"
    (tmp_path / "ddp.yaml").write_text(text)
    out = tmp_path / "s.yaml"
    assert dpsim("import", "accelerate", tmp_path / "ddp.yaml", "-o", out)[0] == 0
    strategy = load_scenario(out).strategy
    assert strategy.overlap.size_of_buckets == 50 * 2**20
    assert strategy.aggregation.find_unused_parameters


def test_no_wrapping_is_one_unit_of_the_whole_model(dpsim, tmp_path):
    file = changed(tmp_path, "accelerate_fsdp.yaml", "TRANSFORMER_BASED_WRAP", "NO_WRAP")
    code, _, err = dpsim("import", "accelerate", file, "-o", tmp_path / "s.yaml")
    assert code == 0, err
    scenario = load_scenario(tmp_path / "s.yaml")
    assert len(scenario.strategy.aggregation.units(scenario.build_model())) == 1


def test_one_process_is_one_gpu(dpsim, tmp_path):
    # accelerate writes sections that it does not use, too.
    text = "distributed_type: 'NO'\nmixed_precision: fp8\nfsdp_config: {}\n"
    (tmp_path / "one.yaml").write_text(text)
    code, _, _ = dpsim("import", "accelerate", tmp_path / "one.yaml", "-o", tmp_path / "s.yaml")
    assert code == 0
    scenario = load_scenario(tmp_path / "s.yaml")
    assert scenario.cluster.ranks == 1
    assert scenario.strategy.aggregation.kind == "allreduce"


@pytest.mark.parametrize("name", FILES)
def test_no_key_is_silent(dpsim, tmp_path, name):
    """A key that no importer knows is reported wherever it is."""
    text = (DATA / name).read_text()
    if name.endswith("toml"):
        spoiled = re.sub(r"^(\[.*\])$", r"\1\nunheard_of = 7", text, flags=re.MULTILINE)
    elif name.endswith("yaml"):
        spoiled = f"unheard_of: 7\n{text}".replace("_config:\n", "_config:\n  unheard_of: 7\n")
    else:
        spoiled = re.sub(r"\{(?=[^}])", '{"unheard_of": 7, ', text)
    (tmp_path / name).write_text(spoiled)
    code, _, err = dpsim("import", FILES[name], tmp_path / name, "--json")
    assert code == 0
    keys = re.findall(r"^ignored: ([\w., ]*): ", err, re.MULTILINE)
    output = [key for line in keys for key in line.split(", ")]
    # A section without any effect on a step is reported as a whole.
    known = [key for key in output if key in ("job", "optimizer.params") or "unheard_of" in key]
    assert len(known) == spoiled.count("unheard_of")


@pytest.mark.parametrize(
    "requested", [[], ["--nodes", 3, "--gpus-per-node", 4], ["--batch", 2]], ids=str
)
@pytest.mark.parametrize("name", FILES)
def test_what_a_configuration_lacks_is_named_by_options_that_there_are(dpsim, name, requested):
    """In comments, in the summary, and in refusals."""
    known = set(re.findall(r"--[a-z][a-z-]+", dpsim("import", FILES[name], "--help")[1]))
    _, out, err = dpsim("import", FILES[name], DATA / name, *requested)
    named = set(re.findall(r"--[a-z][a-z-]+", out + err))
    assert named
    assert named <= known
