"""``dpsim calibrate`` on the command line."""

import json

import pytest
from json_docs import documented_keys, section
from typer.testing import CliRunner

from dpsim import load_scenario
from dpsim.cli import app

TEXT = """
name: mine
cluster: {nodes: 4, node: aws-g4dn, network: {fabric: single-switch}}
workload: {model: resnet18-cifar, batch_per_gpu: 512, software: reference}
run: {steps: 1, warmup: 0}
"""
STEPS = """cluster.nodes,cluster.gpus_per_node,workload.batch_per_gpu,step_time_ms
1,1,64,48
1,1,512,250
1,4,256,170
2,4,256,260
"""


@pytest.fixture
def files(tmp_path):
    (tmp_path / "mine.yaml").write_text(TEXT)
    (tmp_path / "steps.csv").write_text(STEPS)
    return tmp_path


def typed(*words):
    return CliRunner().invoke(app, [*map(str, words)])


def test_the_json_has_what_outsiders_rely_on(files):
    profile = files / "profile.json"
    ran = typed("calibrate", files / "mine.yaml", files / "steps.csv", "-o", profile, "--json")
    assert ran.exit_code == 0
    found = json.loads(ran.stdout)
    assert {"name", "value", "low", "high", "prior", "unit"} <= set(found["parameters"][0])
    assert {"predicted_ms", "measured_ms", "low_ms", "high_ms"} <= set(found["rows"][0])
    assert len(found["rows"]) == 4
    assert len(found["measure_next"]) <= 4
    assert "cluster.nodes" in found["measure_next"][0]
    for row in found["rows"]:
        assert row["low_ms"] < row["predicted_ms"] < row["high_ms"]
        assert row["predicted_ms"] == pytest.approx(row["measured_ms"], rel=0.1)
    ran = typed("run", files / "mine.yaml", "--set", f"calibration={profile}", "--json")
    assert ran.exit_code == 0
    interval = json.loads(ran.stdout)["interval_s"]
    assert interval["high"] / interval["low"] < 4


def test_every_key_is_documented(dpsim, files):
    _, out, _ = dpsim("calibrate", files / "mine.yaml", files / "steps.csv", "--json")
    answer = json.loads(out)
    assert list(answer) == ["schema_version", "kind", *documented_keys("dpsim calibrate")]
    text = section("dpsim calibrate")
    assert [key for key in answer["rows"][0] if f"`{key}`" not in text] == []


def test_tables_show_what_the_runs_determine(files):
    ran = typed("calibrate", files / "mine.yaml", files / "steps.csv")
    assert ran.exit_code == 0
    assert "constants of this cluster" in ran.stdout
    assert "measure next" in ran.stdout


def test_the_plan_needs_no_steps(files):
    ran = typed("calibrate", files / "mine.yaml", "--plan", "--json")
    assert len(json.loads(ran.stdout)["measure_next"]) == 4


def test_without_several_nodes_there_is_a_warning(files):
    (files / "steps.csv").write_text("\n".join(STEPS.splitlines()[:4]) + "\n")
    ran = typed("calibrate", files / "mine.yaml", files / "steps.csv", "--json")
    assert any("several nodes" in each for each in json.loads(ran.stdout)["warnings"])


def test_a_folder_has_a_table_and_logs_beside_it(files):
    logs = files / "logs"
    logs.mkdir()
    (logs / "steps.csv").write_text("cluster.nodes,cluster.gpus_per_node,log\n1,1,one.out\n")
    (logs / "one.out").write_text(
        "\n".join(
            f"iteration {number}/ 99 | elapsed time per iteration (ms): 250.0 |"
            for number in range(1, 41)
        )
    )
    ran = typed("calibrate", files / "mine.yaml", logs, "--json")
    assert ran.exit_code == 0
    (row,) = json.loads(ran.stdout)["rows"]
    assert (row["measured_ms"], row["steps"], row["spread"]) == (250, 30, 0)


RECORD = {
    "kind": "step",
    "name": "two nodes",
    "case": {
        "scenario": "mine.yaml",
        "set": ["cluster.nodes=2"],
        "measured": {"parts_s": {"compute": 0.2, "exposed_comm": 0.06}},
    },
    "measured_s": [0.26],
}


def test_records_of_validate_run_name_their_scenario_and_have_exposed_communication(files):
    folder = files / "records"
    folder.mkdir()
    (folder / "mine.yaml").write_text(TEXT)
    (folder / "run-1.json").write_text(json.dumps(RECORD))
    (folder / "run-2.json").write_text(json.dumps({**RECORD, "partial": True}))
    ran = typed("calibrate", files / "mine.yaml", folder, "--json")
    assert ran.exit_code == 0
    (row,) = json.loads(ran.stdout)["rows"]
    assert (row["nodes"], row["measured_ms"], row["measured_exposed_ms"]) == (2, 260, 60)
    assert abs(row["predicted_exposed_ms"] - 60) < 15


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({}, "must have steps.csv, whose column log names its logs, traces of each rank, or"),
        ({"run.json": {**RECORD, "partial": True}}, "whose run did not fail, but has 1 in all"),
        ({"run.json": {**RECORD, "case": {}}}, "two nodes: must name its scenario"),
        ({"run.json": RECORD}, "two nodes: mine.yaml: must be a YAML file"),
        ({"run.json": {"kind": "other"}}, "run.json: "),
    ],
)
def test_a_folder_that_cannot_be_used_is_one_error(dpsim, files, written, message):
    folder = files / "empty"
    folder.mkdir()
    for name, content in written.items():
        (folder / name).write_text(json.dumps(content))
    code, _, err = dpsim("calibrate", files / "mine.yaml", folder)
    assert code == 2
    assert message in err
    assert len(err.splitlines()) == 1


def test_the_picture_has_runs_that_were_fitted_to_and_held_out(files):
    rows = STEPS.splitlines()
    rows = [f"{rows[0]},held_out", *(f"{row}," for row in rows[1:]), "4,4,256,300,yes"]
    (files / "steps.csv").write_text("\n".join(rows) + "\n")
    page = files / "fit.html"
    ran = typed("calibrate", files / "mine.yaml", files / "steps.csv", "--plot", page, "--json")
    assert ran.exit_code == 0
    assert "fitted to (4)" in page.read_text()
    (files / "fit.json").write_text(ran.stdout)
    ran = typed("plot", files / "fit.json", "-o", files / "again.html")
    assert ran.exit_code == 0


def ranks(folder, seconds, steps=40):
    """A table of the times of each rank in each step: rank 8 takes ``seconds[0]``, and so on."""
    lines = [f"{8 + rank},{time}" for _ in range(steps) for rank, time in enumerate(seconds)]
    (folder / "ranks.csv").write_text("\n".join(["rank,step_s", *lines]) + "\n")
    return folder / "ranks.csv"


def test_single_steps_of_ranks_tell_who_is_slow_as_a_block_that_a_scenario_takes(files):
    table = ranks(files, (0.2, 0.2, 0.3, 0.2))
    block = files / "disturbance.yaml"
    ran = typed("calibrate", files / "mine.yaml", table, "--disturbance", block)
    assert ran.exit_code == 0
    assert "rank 10 takes 1.50 times the median rank's time" in ran.stdout
    assert "stragglers  make a step 1.50 times as long on 4 x 4 GPUs, batch 512" in ran.stdout
    (files / "slow.yaml").write_text(TEXT + block.read_text())
    loaded = load_scenario(files / "slow.yaml").disturbance
    assert [(each.workers, each.factor) for each in loaded.slow] == [((10,), 1.5)]
    assert (loaded.jitter.kind, loaded.jitter.stall) == ("correlated", 1)


def test_a_row_may_name_a_table_of_single_steps(files):
    ranks(files, (0.2, 0.2, 0.3, 0.2))
    (files / "steps.csv").write_text("cluster.nodes,log\n1,ranks.csv\n2,ranks.csv\n")
    ran = typed("calibrate", files / "mine.yaml", files / "steps.csv", "--json")
    answer = json.loads(ran.stdout)
    assert [row["slow_down"] for row in answer["rows"]] == pytest.approx([1.5, 1.5])
    assert [row["measured_ms"] for row in answer["rows"]] == [300, 300]
    assert answer["quantiles"][0] == {"quantile": 0.5, "measured": 1, "drawn": 1}


def test_what_a_node_measured_stays_in_the_profile(files):
    """A profile of `dpsim validate node`, which the scenario names."""
    node = {
        "name": "node",
        "kind": "node",
        "residuals": {
            "counted_on": "held-out rows", "n": 1, "median_ape": 0, "mean_ape": 0, "p95_ape": 0,
            "worst_ape": 0, "worst_bytes": 0,
        },
        "constants": {"memory": {"value": 0.7, "unit": "1"}},
        "spreads": [{"ranks": 4, "pace": 1.1, "jitter": {"kind": "correlated", "sigma": 0.01}}],
    }  # fmt: skip
    (files / "node.json").write_text(json.dumps(node))
    words = ("--set", "calibration=node.json", "-o", files / "own.json")
    ran = typed("calibrate", files / "mine.yaml", files / "steps.csv", *words)
    assert ran.exit_code == 0
    own = json.loads((files / "own.json").read_text())
    assert own["constants"]["memory"]["value"] == 0.7
    assert own["spreads"][0]["pace"] == 1.1
    assert own["step"]["compute"] > 0
