"""``dpsim explain FILE``.

The command line of knobs and advice, beside ``dpsim explain collective``.
"""

import json
import re
from pathlib import Path

import pytest
from json_docs import documented_keys, section

ROOT = Path(__file__).parents[2]
FLIPS = ROOT / "scenarios" / "ranking-flips.yaml"


@pytest.fixture
def dpsim(dpsim):
    return lambda *args: dpsim("explain", *args)


@pytest.mark.parametrize("before", [(), ("--json",)])
def test_json_has_the_documented_keys(dpsim, before):
    code, out, _ = dpsim(*before, FLIPS, *(() if before else ("--json",)))
    answer = json.loads(out)
    text = section("dpsim explain FILE")
    assert code == 0
    assert list(answer) == ["schema_version", "kind", *documented_keys("dpsim explain FILE")]
    assert all(f"`{key}`" in text for row in answer["knobs"] for key in row)
    assert all(f"`{key}`" in text for key in answer["critical_path"])
    changes = [row["change_per_sample"] for row in answer["knobs"] if row["change"] is not None]
    assert changes == sorted(changes)
    assert all(row["why"] for row in answer["knobs"] if row["change_per_sample"] > -0.005)


def test_uncertain_inputs_are_listed_and_documented(dpsim):
    code, out, _ = dpsim(FLIPS, "--set", "run.steps=4", "--uncertainty", "--json")
    reported = json.loads(out)["uncertainty"]
    text = section("dpsim explain FILE")
    assert code == 0
    assert all(f"`{key}`" in text for key in [*reported, *reported["inputs"][0]])
    assert [row["name"] for row in reported["inputs"]] == ["computing", "communication", "jitter"]
    assert sum(row["first_order"] for row in reported["inputs"]) == pytest.approx(1.0, abs=0.05)


def test_a_table_of_uncertain_inputs(dpsim):
    code, out, err = dpsim(FLIPS, "--set", "run.steps=4", "--uncertainty")
    assert (code, err) == (0, "")
    assert re.search(r"sources of the interval: a step takes 2\d\d ms", out)
    assert re.search(r"computing +│ +0\.\d\d to \d\.\d\d x", out)
    assert "calibration: {step_time: ...}" in out


def test_a_table_of_knobs_and_words(dpsim):
    code, out, err = dpsim(FLIPS, "--set", "run.steps=4")
    assert (code, err) == (0, "")
    assert re.search(r"critical path of step 0, 2\d\d\.\d ms", out)
    assert re.search(r"2x NIC rate +│ +-[12]\d\.\d%", out)
    assert "changes to try:" in out
    assert "slow workers: no worker is slow in this scenario" in out


def test_a_wrong_file_is_one_line(dpsim):
    code, _, err = dpsim("none.yaml")
    assert code == 2
    assert err == "dpsim: none.yaml: must be a YAML file, but there is no such file\n"


def test_a_collective_is_still_explained(dpsim):
    code, out, _ = dpsim("collective", "--cluster", "dgx-h100", "-b", "1M")
    assert code == 0
    assert "why: " in out
