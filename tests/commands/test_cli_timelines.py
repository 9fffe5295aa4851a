"""``dpsim timelines``: strategies over time, for a lecture."""

import json
from pathlib import Path

import pytest
from json_docs import documented_keys

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "scenarios" / "quickstart.yaml"


@pytest.mark.parametrize(
    ("of", "shown"),
    [
        ("synchronisation", ("BSP", "SSP, at most 2 ahead", "Updates read by worker 0")),
        ("overlap", ("WFBP", "MG-WFBP", "buckets", "priority")),
        ("sharding", ("all-reduce", "FSDP")),
    ],
)
def test_a_page_has_every_strategy(dpsim, tmp_path, of, shown):
    page = tmp_path / "page.html"
    code, _, err = dpsim("timelines", QUICKSTART, "--of", of, "--html", page)
    assert code == 0, err
    text = page.read_text()
    assert all(name in text for name in shown)
    assert "<script src" not in text


def test_json_has_the_documented_keys(dpsim):
    code, out, _ = dpsim("timelines", QUICKSTART, "--of", "overlap", "--json")
    assert code == 0
    answer = json.loads(out)
    assert list(answer) == ["schema_version", "kind", *documented_keys("dpsim timelines")]
    ends = {each["name"]: each["mean_end_s"] for each in answer["strategies"]}
    assert ends["WFBP"] < ends["sequential"]


def test_a_slow_worker_costs_bsp_most(dpsim):
    def ends(slower):
        _, out, _ = dpsim("timelines", QUICKSTART, "--slower", slower, "--json")
        return {each["name"]: each["mean_end_s"] for each in json.loads(out)["strategies"]}

    even, uneven = ends(1), ends(3)
    lost = {name: uneven[name] - even[name] for name in even}
    assert max(lost, key=lost.get) == "BSP"
    assert lost["ASP"] < lost["SSP, at most 2 ahead"] < lost["BSP"]


def test_the_window_is_that_of_the_step(dpsim):
    for step in (2, 7):
        _, out, _ = dpsim("timelines", QUICKSTART, "--step", step, "--json")
        window = json.loads(out)["window"]
        assert (window["clock"], window["staleness"]) == (step - 1, 2)
        promised = max(0, step - 1 - 2)
        assert all(row[:promised] == ["guaranteed"] * promised for row in window["seen"][1:])


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--of", "synchronization"), "did you mean 'synchronisation'?"),
        (
            (
                "--set",
                "cluster={groups: [{nodes: 1, node: dgx1-v100}, {nodes: 1, node: dgx-h100}]}",
            ),
            "cluster must have nodes of one kind",
        ),
    ],
)
def test_what_cannot_be_shown_is_one_line(dpsim, options, why):
    code, out, err = dpsim("timelines", QUICKSTART, *options)
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert why in err
