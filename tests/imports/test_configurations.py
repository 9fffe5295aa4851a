"""Scenarios from DeepSpeed's, accelerate's, Trainer's and torchtitan's configurations."""

import json
from pathlib import Path

import pytest

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
    assert "# - gradient_clipping: not used here" in imported.text


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
    assert json.loads(out)["scenario"]["strategy"]["aggregation"] == {
        "kind": "allreduce",
        "library": "nccl",
    }


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
            "--nproc-per-node",
        ),
    ],
)
def test_a_broken_file_is_one_clear_line(dpsim, tmp_path, name, old, new, message):
    text = (DATA / name).read_text()
    assert old in text
    file = tmp_path / name
    file.write_text(text.replace(old, new, 1))
    sizes = ("--nnodes", "1", "--nproc-per-node", "2") if "--nproc" in message else ()
    code, out, err = dpsim("import", FILES[name], file, *sizes)
    assert (code, out) == (2, "")
    assert message in err
    assert err.count("\n") == 1
    assert name in err


def test_the_json_has_the_documented_keys(dpsim):
    text = (DATA.parents[2] / "docs" / "json.md").read_text()
    section = text.split("## `dpsim import deepspeed")[1].split("\n## ")[0]
    code, out, _ = dpsim("import", "deepspeed", DATA / "ds_config.json", "--json")
    assert code == 0
    answer = json.loads(out)
    documented = [line.split("`")[1] for line in section.splitlines() if line.startswith("| `")]
    assert list(answer) == ["schema_version", "kind", *documented]
    assert {"path", "value", "from"} == set(answer["taken"][0])
