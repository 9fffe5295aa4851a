"""The plan for borrowed GPUs: its order, what follows from its rows, and that it loses nothing."""

import dataclasses
import gzip
import json
import os
import random
import signal
import subprocess
import sys
import time

import pytest

pytest.importorskip("torch")

from fake_cuda import stand_in

from validate.gpu_plan.plan import Plan
from validate.gpu_plan.report import lines_of, markdown, page
from validate.gpu_plan.sizes import GPU, SMALL
from validate.node import Here, Rows, here

pytestmark = pytest.mark.torch

CPU = Here("cpu", 32, "a processor", 2**34)
HEADER = "| what | measured | by specification | calibrated |"


def gpus(monkeypatch, tmp_path, count, ranks):
    stand_in(monkeypatch, uuids=[f"GPU-{n}" for n in range(count)])
    return Plan(tmp_path, here("cuda"), ranks, GPU)


def test_one_gpu_shows_every_variant_of_every_model_the_usual_one_first(monkeypatch, tmp_path):
    items = gpus(monkeypatch, tmp_path, 1, 1).items()
    steps = [item for item in items if item.scenario and item.ranks == 1]
    assert [item.name for item in steps[:3]] == [
        "resnet50, batch 64, bf16",
        "resnet50, batch 256, bf16",
        "bert-large, batch 64, bf16",
    ]
    assert steps[-1].name == "llama3.2-3b, batch 1, bf16, compile"
    assert len({item.name for item in items}) == len(items)
    # First the profile, of which two models come first; nothing in it needs a second rank.
    assert [item.name for item in items[:2]] == [
        "resnet50 in bf16 by 1 ranks",
        "bert-large in bf16 by 1 ranks",
    ]
    assert {item.backend for item in items if "on one device" in item.name} == {"gloo"}


def test_a_node_shows_its_collectives_and_strategies_before_what_one_gpu_shows(
    monkeypatch, tmp_path
):
    plan = gpus(monkeypatch, tmp_path, 8, 8)
    names = [item.name for item in plan.items()]
    assert names[0] == "all-reduce by 8 ranks"
    first = names.index("resnet50, batch 256, ddp by 8 ranks")
    assert first < names.index("resnet50, batch 64, bf16")
    assert {item.ranks for item in plan.items(("node",))} == {2, 8}
    # Two ranks would have a GPU each, so none of its items claims to share one.
    (trace,) = [item for item in plan.items(("one",)) if item.ranks != 1]
    assert (trace.name, trace.ranks, trace.backend) == ("trace", 2, "nccl")


def test_several_nodes_show_what_crosses_them_first(monkeypatch, tmp_path):
    plan = gpus(monkeypatch, tmp_path, 8, 16)
    items = plan.items()
    assert items[0].name == "all-reduce by 16 ranks"
    (hybrid,) = [item for item in items if item.name.startswith("resnet50, batch 256, hsdp")]
    cluster = plan.case(hybrid).scenario().cluster
    assert (cluster.nodes, cluster.gpus_per_node, hybrid.ranks) == (2, 8, 16)
    # The profile is of all ranks: it stands in no other part.
    assert not [i for i in plan.items(("node", "one")) if i.name == "all-reduce by 8 ranks"]


@pytest.mark.parametrize("kind", ["ddp", "fsdp", "zero-1", "local-sgd", "servers"])
def test_ranks_of_an_item_are_those_of_its_scenario(tmp_path, kind):
    from validate.emulate import placement
    from validate.node import method_on

    plan = Plan(tmp_path, CPU, 3, dataclasses.replace(SMALL, strategies=GPU.strategies))
    (item,) = [i for i in plan.items(("node",)) if f"resnet18, batch 1, {kind}" in i.name]
    scenario = plan.case(item).scenario()
    assert placement(scenario).ranks == item.ranks == 3
    assert method_on(scenario) is not None


def measured(plan, items, *ends):
    """Rows in which the first scenarios ended so."""
    rows = Rows(plan.folder / "rows.jsonl")
    rows.write({"world": {"backend": "gloo", "ranks": [], "machine": {}}})
    for item, end in zip(items, ends, strict=False):
        rows.write({"begin": item.name, "item": item.identity})
        for rank in range(item.ranks):
            own = {"step_s": [9.0, 9.0, 9.0, 0.1, 0.3, 0.2], "alone_s": 0.1, "carried": [[]] * 6}
            reported = {"device": "cpu", "backend": "gloo", "hides": False, "held_before_bytes": 0}
            sides = {"parts_s": {}, "pauses_s": [0.0] * 6, "peak_bytes": 10**9}
            rows.write({"of": item.name, "rank": rank, **own, **reported, **sides})
        rows.write({"note": "too busy"})
        rows.write({"end": item.name, **end})
    rows.refresh()
    return rows


def test_measured_steps_stand_beside_predictions_in_table_and_record(tmp_path):
    plan = Plan(tmp_path, CPU, 1, SMALL)
    items = [item for item in plan.items() if item.scenario and item.ranks == 1]
    rows = measured(plan, items, {"seconds": 1.0}, {"failed": "OutOfMemoryError: no <room>"})
    done, failed = lines = list(lines_of(plan, items, rows))
    assert done.cells()[:2] == ["resnet18, batch 1, fp32", "200 ms"]
    assert failed.cells() == ["gpt2, batch 1, fp32", "OutOfMemoryError: no <room>"]
    assert markdown(lines).startswith(HEADER)
    assert len(markdown(lines).splitlines()) == 4
    shown = page("2 x <GPU>", lines)
    assert "<h1>2 x &lt;GPU&gt;</h1>" in shown
    assert "<td>OutOfMemoryError: no &lt;room&gt;</td>" in shown
    assert "<p>too busy</p>" in shown
    record = done.record()
    assert record["measured"]["step_time_s"] == pytest.approx(0.2)
    predicted = done.run.predicted.step_time_s["mean"]
    assert record["error"] == {"specification": pytest.approx(predicted / 0.2 - 1, rel=1e-5)}
    # 125 of them are kept of a node.
    assert len(json.dumps(record)) < 650


def test_every_model_that_it_names_has_a_twin():
    from dpsim.workload import WorkloadConfig
    from validate.twins import subject_of

    for size in (GPU, SMALL):
        for model in size.models:
            assert subject_of(WorkloadConfig(model=model, batch_per_gpu=1)) is not None


@pytest.mark.wide  # a minute or two of both processors
def test_a_plan_that_is_killed_at_any_moment_is_resumed_to_the_whole_table(tmp_path):
    command = [sys.executable, "-m", "validate.gpu_plan", "-o", str(tmp_path), "--device", "cpu"]
    command += ["--small", "--part", "node", "--minutes", "8"]
    chance = random.Random(time.time_ns())
    whole = {item.name for item in Plan(tmp_path, CPU, 2, SMALL).items(("node",))}
    rows_file = tmp_path / "rows.jsonl"
    kept = []
    for _ in range(2):
        running = subprocess.Popen(command, stderr=subprocess.PIPE, process_group=0)
        time.sleep(chance.uniform(3, 15))
        os.killpg(running.pid, signal.SIGKILL)
        running.communicate()
        time.sleep(3)  # its ranks end by themselves
        kept.append(rows_file.read_text() if rows_file.exists() else "")
    ran = subprocess.run(command, check=False, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    assert "left over" not in ran.stderr, ran.stderr
    # Nothing that was there has gone, and what was whole was not measured again.
    text = rows_file.read_text()
    assert all(text.startswith(before.rpartition("\n")[0]) for before in kept)
    rows = Rows(rows_file)
    rows.refresh()
    done = [attempt.name for attempt in rows.attempts if attempt.ended == "done"]
    assert sorted(done) == sorted(whole)
    record = json.loads(gzip.decompress((tmp_path / "record.json.gz").read_bytes()))
    table = (tmp_path / "table.md").read_text()
    assert (tmp_path / "page.html").read_text().count("<tr>") == len(table.splitlines()) - 1
    assert len(table.splitlines()) == 2 + len(record["lines"])
    assert len(table.splitlines()) == 2 + sum("ddp" in name or "fsdp" in name for name in whole)


def test_a_device_that_is_not_here_is_bad_usage(tmp_path):
    command = [sys.executable, "-m", "validate.gpu_plan", "-o", str(tmp_path / "plan")]
    # No GPU to see, wherever it runs.
    environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    ran = subprocess.run(command, check=False, capture_output=True, text=True, env=environment)
    assert ran.returncode == 2
    assert ran.stderr.startswith("gpu_plan: --device must be one of this machine's, but got cuda")
    assert not (tmp_path / "plan").exists()
