"""Five tasks of a new user, by the very commands that one would type, in an empty folder."""

import csv
import io
import json
import shlex

import pytest

TORCH = """import torch

def build():
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 64, 7, stride=2), torch.nn.ReLU(), torch.nn.AdaptiveAvgPool2d(8),
        torch.nn.Flatten(), torch.nn.Linear(4096, 4096), torch.nn.ReLU(), torch.nn.Linear(4096, 1000),
    )
"""


@pytest.fixture
def typed(dpsim, tmp_path, monkeypatch):
    """Carries out a line as a shell would, in a folder of its own; answers what it printed."""
    monkeypatch.chdir(tmp_path)

    def carry_out(line):
        program, *words = shlex.split(line)
        assert program == "dpsim"
        code, out, err = dpsim(*words)
        assert code == 0, err
        return out

    return carry_out


@pytest.mark.parametrize(("nodes", "gpus", "passes"), [(4, 32, 16), (64, 512, 1)])
def test_llama_3_8b_on_h100s_with_a_global_batch_of_1024(typed, nodes, gpus, passes):
    typed(
        f"dpsim init --gpu H100 --nodes {nodes} --model llama3-8b --global-batch 1024 -o llama.yaml"
    )
    answer = json.loads(typed("dpsim run llama.yaml --json"))
    assert answer["workers"] == gpus
    assert answer["memory"]["fits"]
    assert answer["step_time_s"]["mean"] == pytest.approx(1024 / answer["throughput_samples_per_s"])
    # Between no use of the GPUs and what the best published runs reach on H100.
    assert 0.2 < answer["mfu"] < 0.6
    assert answer["interval_s"]["low"] < answer["step_time_s"]["mean"]
    text = typed("dpsim run llama.yaml")
    assert "tokens/s" in text
    assert f"on {gpus} workers" in text
    learnt = json.loads(typed("dpsim memory llama.yaml --json"))
    assert learnt["largest_batch"] >= learnt["batch_per_pass"] == 1024 // gpus // passes


def test_which_of_four_helps_resnet_50_on_16_t4_at_5_gbit_s(typed):
    typed(
        "dpsim init --gpu T4 --gpus-per-node 1 --nodes 16 --model resnet50 --precision fp32 "
        "--network '5 Gbit/s' -o t4.yaml"
    )
    line = (
        "dpsim compare t4.yaml --alternative precision=fp16 "
        "--alternative 'compression.kind=powersgd,rank=4' "
        "--alternative 'sync.kind=local-sgd,every=8' --alternative batch_per_gpu=128"
    )
    answer = json.loads(typed(f"{line} --json"))
    times = [1 / row["throughput_samples_per_s"] for row in answer["rows"]]
    assert len(answer["rows"]) == 5
    assert times == sorted(times)
    # All are better than the file as it is: one halves computing, one shortens communication, one has
    # more samples for each exchange, and one rarely exchanges, hidden by nothing.
    assert answer["rows"][3]["variant"]["strategy.sync.kind"] == "local-sgd"
    assert answer["rows"][4]["variant"] == {}
    table = typed(line).splitlines()
    # In the order of the rows in which each is changed first.
    heads = {cell.strip() for cell in table[1].split("┃")[:5]}
    assert heads == {"precision", "batch_per_gpu", "compression", "rank", "sync"}


def test_one_slow_gpu_in_64_under_five_ways_to_synchronise(typed):
    typed("dpsim init --gpu A100 --nodes 8 --model resnet50 -o slow.yaml")
    line = (
        "dpsim compare slow.yaml --set 'disturbance.slow=[{workers: [0], factor: 2}]' "
        "--vary sync.kind=bsp,ssp,asp,backup,local-sgd --json"
    )
    rows = json.loads(typed(line))["rows"]
    step = {row["variant"]["strategy.sync.kind"]: row for row in rows}
    assert all(row["workers"] == 64 for row in rows)
    rate = {kind: row["throughput_samples_per_s"] for kind, row in step.items()}
    # Who waits for the slow one goes at its pace, about half; who leaves it behind does not.
    assert rate["backup"] > 1.8 * rate["bsp"]
    assert rate["asp"] > 1.8 * rate["bsp"]
    assert rate["ssp"] < 1.1 * rate["bsp"]
    assert rate["bsp"] <= rate["local-sgd"] < rate["backup"]


@pytest.mark.torch
def test_a_torch_module_on_2_x_4_rtx_4090_with_10_gbe(typed, tmp_path):
    (tmp_path / "mine.py").write_text(TORCH)
    typed(
        "dpsim init --gpu 'rtx-4090' --nodes 2 --gpus-per-node 4 --network 10GbE "
        "--model mine.py:build --input 3,224,224 -o mine.yaml"
    )
    answer = json.loads(typed("dpsim run mine.yaml --json"))
    assert answer["workers"] == 8
    assert answer["memory"]["gpu"] == "rtx-4090"
    parameters = json.loads(typed("dpsim memory mine.yaml --json"))["parameters"]
    assert parameters == 64 * 3 * 49 + 64 + 4096 * 4096 + 4096 + 4096 * 1000 + 1000
    explained = json.loads(typed("dpsim explain mine.yaml --set run.steps=5 --json"))
    assert explained["advice"]


def test_a_sweep_to_csv_and_a_plot(typed, tmp_path):
    typed("dpsim scenarios sweep -o sweep.yaml")
    printed = typed(
        "dpsim sweep sweep.yaml -o results --workers 1 --set run.steps=5 --plot sweep.html"
    )
    head = next(line for line in printed.splitlines() if "┃" in line)
    assert [cell.strip() for cell in head.split("┃")] == [
        "point",
        "nodes",
        "algorithm",
        "step",
        "90% within",
        "samples/s",
        "efficiency",
        "memory",
    ]
    rows = [*csv.DictReader(io.StringIO(typed("dpsim results results --csv")))]
    assert len(rows) == 12
    assert {row["nodes"] for row in rows} == {"1", "2", "4", "8"}
    assert "Plotly.newPlot(" in (tmp_path / "sweep.html").read_text()
