"""Language models beside published steps: rows as scenarios, regimes, figures of three models."""

import csv
from functools import cache
from pathlib import Path

import pytest

from dpsim.engine import memory_use, run_scenario
from tools.refits.compute_refit import published_steps
from validate.published import compare_steps
from validate.published.step_tables.llm import TABLE, read, step_of_row
from validate.published.tables.csv_file import NotPredictedError, Row
from validate.published.tables.packaged import packaged_rows
from validate.published.tables.published_step import PublishedStep
from validate.published.tables.scenario_files import ScenarioFolder

BASE = {
    "row_id": "r0", "case_id": "c", "source": "somebody", "year": "2023", "model": "gpt3-1.3b",
    "params": "1315950592", "layers": "24", "hidden": "2048", "heads": "16", "kv_heads": "16",
    "ffn": "8192", "vocab": "50368", "seq_len": "2048", "gpu": "a100-sxm-80gb", "gpus": "8",
    "gpus_per_node": "8", "nic_gbps_per_node": "", "precision": "bf16", "sharding": "fsdp_full",
    "shard_group": "all", "tp": "1", "pp": "1", "cp": "1", "act_ckpt": "none", "compiled": "0",
    "micro_batch": "8", "grad_accum": "1", "step_time_s": "1.0", "quality": "ok", "framework": "f",
    "note": "",
}  # fmt: skip


@cache
def fitted() -> list[PublishedStep]:
    """The rows of the public table that constants are fitted on."""
    return [*published_steps("llm")]


def table(path: Path, *changes: dict[str, str]) -> Path:
    """A table of rows that differ from BASE."""
    rows = [BASE | {"row_id": f"r{number}"} | change for number, change in enumerate(changes)]
    with path.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(BASE))
        writer.writeheader()
        writer.writerows(rows)
    return path


def row_of(**change: str) -> Row:
    """One row of the table."""
    return Row(Path("t.csv"), 2, BASE | change)


def scenario_of(step, folder):
    """The row's scenario, with what it computes again."""
    made = ScenarioFolder(folder, keeps=False)
    return made.scenario(made.fitting(step))


def output(**change: str) -> PublishedStep:
    """One row as a step."""
    return step_of_row(row_of(**change))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"tp": "2"}, "model_parallel: tp is 2"),
        ({"gpu": "tpu-v4"}, "no such hardware: of tpu"),
        ({"gpu": "gaudi"}, "no such GPU in the catalogue: gaudi"),
        ({"micro_batch": ""}, "not stated: micro_batch"),
        ({"grad_accum": "10.667"}, "uneven: grad_accum is 10.667"),
        ({"gpus": "12"}, "nodes unevenly filled"),
    ],
)
def test_what_cannot_be_simulated_says_why(change, reason):
    with pytest.raises(NotPredictedError, match=reason):
        read(row_of(**change))


def test_networks_that_a_source_does_not_state_are_named(tmp_path):
    assert output().shown["network"] == "the machine's own (not stated)"
    stated = output(nic_gbps_per_node="400", gpus="16")
    assert stated.shown["network"] == "4 x roce-100g (stated)"
    network = scenario_of(stated, tmp_path).cluster.network
    assert network.nics_per_node == 4


def test_a_row_becomes_the_scenario_that_it_describes(tmp_path):
    note = "mixed precision mode DEFAULT"
    scenario = scenario_of(output(act_ckpt="full", compiled="1", note=note, gpus="16"), tmp_path)
    workload, aggregation = scenario.workload, scenario.strategy.aggregation
    assert (workload.execution, workload.checkpoint) == ("compile", "full")
    assert scenario.cluster.nodes == 2
    gradients = aggregation.gradients
    assert (gradients.dtype, gradients.sync_each_pass) == ("fp32", True)
    assert gradients.collective == "reduce-scatter"
    model = scenario.build_model()
    assert model.parameters == pytest.approx(1315950592, rel=0.001)
    # One unit a block, the embedding with the first of them.
    assert len(aggregation.units(model)) == pytest.approx(25, abs=1)


def test_interns_gradients_all_reduce_in_buckets_of_half_a_billion(tmp_path):
    step = output(framework="InternEvo", sharding="zero1", shard_group="node")
    strategy = scenario_of(step, tmp_path).strategy
    assert strategy.aggregation.gradients.collective == "all-reduce"
    assert strategy.overlap.bucket_size == 2 * 512 * 2**20


@pytest.mark.parametrize(
    ("gpus", "slower"),
    # Of 8, 16 and 1,024 normal draws the largest is 1.42, 1.77 and 3.24 deviations off on average.
    [("8", 0.0), ("16", 0.342), ("1024", 1.82)],
)
def test_the_slowest_of_more_gpus_is_slower(gpus, slower, tmp_path):
    disturbance = scenario_of(output(gpus=gpus), tmp_path).disturbance
    found = [entry.factor - 1 for entry in disturbance.slow]
    assert sum(found) == pytest.approx(0.015 * slower, rel=0.03)


@pytest.mark.parametrize(
    ("sharding", "stated", "taken"),
    [("hsdp", "", "node"), ("fsdp_full", "", "all"), ("hsdp", "4", 4), ("zero1", "node", "node")],
)
def test_a_shard_group_that_is_not_stated_is_what_the_sharding_means(
    sharding, stated, taken, tmp_path
):
    step = output(sharding=sharding, shard_group=stated, gpus="16")
    assert scenario_of(step, tmp_path).strategy.aggregation.shard_group == taken


def test_rows_apart_have_reasons_and_others_predictions(tmp_path):
    file = table(tmp_path / "t.csv", {}, {"tp": "2"}, {"quality": "caution"}, {"step_time_s": ""})
    found = compare_steps(file, "llm").to_json()
    assert [row["row_id"] for row in found["rows"]] == ["r0"]
    assert found["rows"][0]["predicted_ms"] > 0
    assert {row["row_id"]: row["reason"] for row in found["rows_apart"]} == {
        "r1": "model_parallel: tp is 2",
        "r2": "quality: caution",
        "r3": "step time not stated",
    }
    assert {"gpu a100-sxm-80gb", "parameters 1 to 5 G", "checkpointing none"} <= set(
        found["groups"]
    )


def test_calibrated_rows_stand_beside_constant_tokens_a_second(tmp_path):
    known = {"step_time_s": "1.25"}
    further = {"gpus": "64", "nic_gbps_per_node": "400", "step_time_s": "2", "grad_accum": "2"}
    file = table(tmp_path / "t.csv", known, further)
    found = compare_steps(file, "llm", regime="calibrated").to_json()
    (row,) = found["rows"]
    assert row["naive_ms"] == pytest.approx(2500)
    assert row["known_row"] == "r0"
    assert row["predicted_ms"] >= row["naive_ms"]
    assert [row["row_id"] for row in found["rows_fitted_on"]] == ["r0"]
    assert found["naive"]["n"] == 1


# Rows of one model on one cluster are neighbours: one of four shows most of it.
@pytest.mark.parametrize("step", [4, pytest.param(1, marks=pytest.mark.wide)])
def test_published_runs_are_predicted_to_fit_in_memory(step, tmp_path):
    """Rows that the table calls ok, among them those that fill their GPUs."""
    found = []
    for row in fitted()[::step]:
        use = memory_use(scenario_of(row, tmp_path))
        found.append(use.held.total / use.capacity)
    assert len(found) > 600 // step
    assert max(found) <= 1
    assert sum(share > 0.8 for share in found) > 30 // step


def test_a_compiler_gains_what_it_gained_in_torchtitan(tmp_path):
    """Two rows that differ only in this, by constants that saw none of its rows."""
    found = compare_steps(_file(tmp_path, "titan-h100-8b-bf16"), "llm")
    rows = {row.step.scenario["workload"]["execution"]: row for row in found.every}
    assert {row.constants for row in rows.values()} == {
        "shipped, without llm torchtitan benchmarks/llama3_h100_202412"
    }
    eager, compiled = rows["eager"], rows["compile"]
    gain = eager.predicted / compiled.predicted
    assert gain == pytest.approx(eager.measured / compiled.measured, rel=0.08)


def _file(folder, case):
    """The public table's rows on eight GPUs of a case."""
    rows = [
        row.values
        for row in packaged_rows(TABLE)
        if row.text("case_id").startswith(case) and row.text("gpus") == "8"
    ]
    with (folder / "t.csv").open("w", newline="", encoding="utf-8") as stream:
        writer = csv.DictWriter(stream, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
    return folder / "t.csv"


# llm-foundry's README (MPT 1.3B, the shape of GPT-3 1.3B; LLaMA-2 7B as MPT 7B with its vocabulary)
# and torchtitan's docs/performance.md of June 2024.
@pytest.mark.parametrize(
    ("row_id", "error"), [("h100-1b", 0.12), ("a100-7b", 0.12), ("llama3-70b", 0.12)]
)
def test_published_figures_by_the_shipped_constants(row_id, error, tmp_path):
    chosen = FIGURES[row_id]
    rows = packaged_rows(TABLE)
    found = [row for row in rows if all(row.text(name) == value for name, value in chosen.items())]
    assert found
    for each in found:
        row = read(each)
        step = run_scenario(scenario_of(row, tmp_path)).step_time
        assert step == pytest.approx(row.measured, rel=error), each.row_id


FIGURES = {
    "h100-1b": {
        "source": "MosaicML llm-foundry-readme", "model": "mpt-1b", "gpu": "h100-sxm-80gb",
        "gpus": "8", "seq_len": "2048", "precision": "bf16",
    },
    "a100-7b": {
        "source": "MosaicML llm-foundry-readme", "model": "mpt-7b", "gpu": "a100-sxm-80gb",
        "gpus": "8", "seq_len": "4096",
    },
    "llama3-70b": {
        "source": "torchtitan docs/performance.md (2024-06)", "model": "llama3-70b", "gpus": "64",
    },
}  # fmt: skip
