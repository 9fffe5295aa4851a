"""``dpsim scale --by``: the command line of batch-size studies."""

import json
import re
from pathlib import Path

import pytest
from json_docs import documented_keys

from dpsim.base.units import amount

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "scenarios" / "quickstart.yaml"
FEW = ["--set", "run.steps=3", "--set", "run.warmup=0"]


@pytest.fixture
def dpsim(dpsim):
    return lambda *args: dpsim("scale", QUICKSTART, *args, *FEW)


def test_json_has_the_documented_keys(dpsim):
    code, out, _ = dpsim("--by", "workers", "--nodes", "2,4", "--fixed-global-batch", "--json")
    answer = json.loads(out)
    assert code == 0
    assert list(answer) == ["schema_version", "kind", *documented_keys("dpsim scale FILE --by")]
    assert [
        (row["nodes"], row["batch_per_gpu"], row["global_batch"]) for row in answer["rows"]
    ] == [(2, 64, 2048), (4, 64, 2048)]
    assert answer["rows"][0]["to_target"]["target"] == "top-1 accuracy 0.75"
    assert answer["best_batches"][1] == {"nodes": 4, "workers": 32, "batch_per_gpu": 64}


def test_batches_are_a_quarter_to_four_times_the_scenarios_if_left_out(dpsim):
    _, out, _ = dpsim("--by", "batch", "--json")
    answer = json.loads(out)
    assert [row["batch_per_gpu"] for row in answer["rows"]] == [16, 32, 64, 128]
    assert answer["left_out"][0].startswith("4 nodes, 256 samples per GPU: ")
    _, out, _ = dpsim("--by", "batch", "--batches", "8,4", "--nodes", "1,2", "--json")
    assert [(row["nodes"], row["batch_per_gpu"]) for row in json.loads(out)["rows"]] == [
        (1, 4),
        (1, 8),
        (2, 4),
        (2, 8),
    ]


@pytest.mark.parametrize(
    ("by", "row"),
    [((), "64 nodes"), (("--by", "batch", "--batches", "32"), "64 nodes, 32 per GPU")],
)
def test_every_step_of_the_table_has_its_models_error(dpsim, by, row):
    code, out, _ = dpsim("--nodes", "1,64", *by)
    assert code == 0
    assert "90% within" in out
    assert len(re.findall(r"│ +[\d.]+ (?:m?s )?to [\d.]+ m?s │", out)) == 2
    # Both rows computed as models that were measured do; one crosses a network few have.
    assert re.findall(r"^extrapolated: .*", out, re.MULTILINE) == [
        f"extrapolated: only one machine with TCP sockets was measured ({row})"
    ]


@pytest.mark.parametrize("by", [(), ("--by", "workers")])
def test_a_total_stands_in_each_row(dpsim, by):
    requested = ("--nodes", "1,4", "--samples", "10M", "--set", "cost.price_per_gpu_hour=2", *by)
    code, out, _ = dpsim(*requested)
    assert code == 0
    assert all(head in out for head in ("total time", "GPU hours", "price"))
    for row in json.loads(dpsim(*requested, "--json")[1])["rows"]:
        time_s = 1e7 / row["throughput_samples_per_s"]
        assert row["total"]["time_s"] == pytest.approx(time_s)
        assert row["total"]["price"] == pytest.approx(2 * row["workers"] * time_s / 3600)
        assert f"{amount(row['total']['price'], 4)} USD" in out


def test_the_table_marks_the_best_and_says_what_it_means(dpsim):
    code, out, _ = dpsim("--by", "batch", "--batches", "32,64", "--nodes", "1,4")
    assert code == 0
    assert "compared by time to top-1 accuracy 0.75" in out
    assert len(re.findall(r"best", out)) == 2
    assert "1 node, too small: a global batch of 512 is far below" in out


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (
            ["--by", "batches"],
            "must be a known way to scale (--by), but got 'batches' (did you mean 'batch'?)",
        ),
        (
            ["--fixed-global-batch"],
            "--fixed-global-batch must be given with --by workers, but got --by nodes",
        ),
        (
            ["--by", "workers", "--batches", "8"],
            "--batches must be given with --by batch, but got --by workers",
        ),
        (
            ["--by", "batch", "--batches", "8,x"],
            "--batches: must be whole numbers of at least 1, such as 1,2,4, but got '8,x'",
        ),
        (
            ["--by", "workers", "--nodes", "9" * 5000],
            f"--nodes: must be whole numbers of at least 1, such as 1,2,4, but got '{'9' * 60}'",
        ),
        (
            ["--by", "workers", "--nodes", "0"],
            "--nodes: must be whole numbers of at least 1, such as 1,2,4, but got '0'",
        ),
    ],
)
def test_bad_options_get_one_clear_line(dpsim, args, message):
    code, out, err = dpsim(*args)
    assert (code, out, err) == (2, "", f"dpsim: {message}\n")


def test_numbers_of_nodes_that_do_not_fit_are_left_out(dpsim):
    sharded = ["--set", "strategy.aggregation={kind: sharded, stage: 3}"]
    large = ["--set", "workload={model: llama2-7b, batch_per_gpu: 1, checkpoint: full}"]
    code, out, _ = dpsim("--nodes", "1,16", *sharded, *large, "--json")
    answer = json.loads(out)
    assert code == 0
    assert [row["nodes"] for row in answer["rows"]] == [16]
    assert [each["variant"] for each in answer["left_out"]] == [{"cluster.nodes": "1"}]
