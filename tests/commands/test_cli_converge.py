"""``dpsim converge``: the command line of replays."""

import json
import re
from pathlib import Path

import pytest
from json_docs import documented_keys, section

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "scenarios" / "quickstart.yaml"
FEW = ["--set", "replay.steps=30", "--set", "replay.points=10", "--set", "cluster.nodes=1"]


@pytest.fixture
def dpsim(dpsim):
    return lambda *args: dpsim("converge", QUICKSTART, *args)


def test_json_has_the_documented_keys(dpsim):
    code, out, err = dpsim("--json", "--gradients", *FEW)
    answer = json.loads(out)
    text = section("dpsim converge FILE")
    assert (code, err) == (0, "")
    assert list(answer) == [
        "schema_version",
        "kind",
        *documented_keys("dpsim converge FILE"),
        "fates",
    ]
    assert len(answer["curve"]) == 11
    assert (
        answer["curve"][-1]["accuracy"] == answer["final_accuracy"] > answer["curve"][0]["accuracy"]
    )
    assert answer["time_to_target_s"] is None
    assert answer["samples"] == 30 * 8 * 8
    assert len(answer["fates"]) == 30 * 8
    for key in (*answer["curve"][0], *answer["fates"][0]):
        assert f"`{key}`" in text


def test_a_single_file_reaches_the_target(dpsim):
    code, out, _ = dpsim("--json", "--set", "replay.points=20")
    answer = json.loads(out)
    assert code == 0
    assert answer["workers"] == 32
    assert 0 < answer["time_to_target_s"] < answer["time_s"]
    assert answer["final_accuracy"] > 0.9


def test_the_table_and_what_it_means(dpsim):
    code, out, _ = dpsim(
        *FEW, "--set", "replay.target_accuracy=0.2", "--set", "strategy.sync.kind=ssp"
    )
    assert code == 0
    assert out.startswith("quickstart: mlp on digits, 8 workers")
    assert re.search(
        r"^target      20% of the test images after [\d.]+ m?s, [\d,]+ samples and .* sent$",
        out,
        re.MULTILINE,
    )
    assert re.search(r"^staleness   [\d.]+ updates on average, \d+ at most$", out, re.MULTILINE)


def test_fates_are_a_row_for_each_gradient(dpsim):
    _, out, _ = dpsim("--gradients", "--set", "replay.steps=2", "--set", "cluster.nodes=1")
    assert len(re.findall(r"│ applied", out)) == 16


def test_the_page_needs_nothing_else(dpsim, tmp_path):
    page = tmp_path / "curves.html"
    code, _, err = dpsim(*FEW, "--plot", page)
    assert (code, err) == (0, f"wrote {page}\n")
    text = page.read_text()
    assert "accuracy on test images" in text
    assert '<script src="http' not in text


def test_bad_settings_get_one_clear_line(dpsim):
    code, out, err = dpsim("--set", "replay.model=mpl")
    assert (code, out) == (2, "")
    assert "replay.model" in err
    assert "did you mean 'mlp'?" in err
