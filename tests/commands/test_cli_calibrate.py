"""``dpsim calibrate`` on the command line."""

import json

import pytest
from typer.testing import CliRunner

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
    assert interval["high"] / interval["low"] < 2


def test_tables_say_what_the_runs_told(files):
    ran = typed("calibrate", files / "mine.yaml", files / "steps.csv")
    assert ran.exit_code == 0
    assert "constants of this cluster" in ran.stdout
    assert "measure next" in ran.stdout


def test_the_plan_needs_no_steps(files):
    ran = typed("calibrate", files / "mine.yaml", "--plan", "--json")
    assert len(json.loads(ran.stdout)["measure_next"]) == 4


def test_without_several_nodes_a_warning_is_said(files):
    (files / "steps.csv").write_text("\n".join(STEPS.splitlines()[:4]) + "\n")
    ran = typed("calibrate", files / "mine.yaml", files / "steps.csv", "--json")
    assert any("several nodes" in each for each in json.loads(ran.stdout)["warnings"])
