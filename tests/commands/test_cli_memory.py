"""``dpsim memory``: table, JSON and exit codes."""

import json
from pathlib import Path

import pytest
from json_docs import section

ROOT = Path(__file__).parents[2]
QUICKSTART = str(ROOT / "scenarios" / "quickstart.yaml")
GPT2_XL = [
    "workload.model=gpt2-xl",
    "workload.precision=fp16",
    "workload.optimizer=adam",
    "workload.batch_per_gpu=1",
]


@pytest.fixture
def dpsim(dpsim):
    """Runs a command with overrides; answers exit code, stdout and stderr."""
    return lambda *args, sets=(): dpsim(*args, *(part for each in sets for part in ("--set", each)))


def test_the_table_says_what_fits_and_by_how_much(dpsim):
    code, out, err = dpsim("memory", QUICKSTART)
    assert (code, err) == (0, "")
    assert "7.35 GB of 16.9 GB on each v100-sxm2-16gb" in out
    assert "fits, with 9.59 GB to spare" in out
    assert "at most 173 fit" in out
    assert "ZeRO 3 / FSDP" in out
    assert "remedy" not in out


def test_a_learner_of_less_than_a_sample_a_second_has_digits(dpsim):
    """80 GB hold one learner of a Llama 3 8B of which adapters are trained."""
    cluster = "cluster={node: dgx-a100, nodes: 1, gpu: a100-sxm-80gb}"
    part = "checkpoint: full, trainable: {lora: {rank: 16, on: attention}}"
    work = f"workload={{model: llama3-8b, batch_per_gpu: 1, precision: bf16, {part}}}"
    out = dpsim("memory", QUICKSTART, sets=[cluster, work])[1]
    rows = out.split("learners that share a GPU")[1].splitlines()[3:]
    assert rows
    assert all(float(cell) > 0 for row in rows for cell in row.split("│")[2:])


def test_gpt2_xl_takes_16_bytes_a_parameter_and_is_sharded(dpsim):
    code, out, _ = dpsim("memory", QUICKSTART, "--json", sets=GPT2_XL)
    answer = json.loads(out)
    assert code == 0
    assert answer["bytes_per_parameter"] == 16
    assert answer["fits"] is False
    assert answer["largest_batch"] == 0
    assert answer["spare_bytes"] == answer["capacity_bytes"] - answer["total_bytes"]
    assert answer["remedies"][0]["changes"]["stage"] in (1, 2, 3)
    assert answer["advice"] == [remedy["text"] for remedy in answer["remedies"]]


def test_the_json_has_the_documented_keys(dpsim):
    _, out, _ = dpsim("memory", QUICKSTART, "--json")
    keys = set(json.loads(out)) - {
        "schema_version",
        "kind",
        "gpu",
        "parts_bytes",
        "breakdown",
        "total_bytes",
        "capacity_bytes",
        "fits",
    }
    assert keys == {key for key in keys if f"`{key}`" in section("dpsim memory")}


def test_running_what_does_not_fit_is_an_error_with_the_advice(dpsim):
    code, out, err = dpsim("run", QUICKSTART, sets=GPT2_XL)
    assert (code, out) == (2, "")
    assert err.startswith("dpsim: workload: must fit in the 16.9 GB of v100-sxm2-16gb")
    assert "shard with ZeRO" in err


def test_a_job_that_does_not_fit_runs_when_allowed(dpsim):
    code, out, _ = dpsim(
        "run",
        QUICKSTART,
        sets=[*GPT2_XL, "run.allow_out_of_memory=true", "run.steps=1", "run.warmup=0"],
    )
    assert code == 0
    assert "does not fit, simulated anyway" in out
