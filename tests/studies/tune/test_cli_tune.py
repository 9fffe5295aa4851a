"""``dpsim tune``: what it prints and writes."""

import json

import pytest
from json_docs import documented_keys, section

from dpsim.scenario import load_scenario

OVER = [
    "--over",
    "strategy.overlap.kind=sequential,wfbp,priority",
    "--over",
    "strategy.compression.kind=none,cast,top-k",
]


def test_json_has_the_documented_keys_and_the_same_bytes_for_the_same_seed(dpsim, tiny):
    _, out, _ = dpsim("tune", tiny, *OVER, "--evaluations", "6", "--seed", "7", "--json")
    _, again, _ = dpsim("tune", tiny, *OVER, "--evaluations", "6", "--seed", "7", "--json")
    answer, same = json.loads(out), json.loads(again)
    assert list(answer) == [
        "schema_version",
        "kind",
        *documented_keys("dpsim tune"),
    ]
    for row in (answer["baseline"], answer["best"], *answer["front"], *answer["rows"]):
        assert list(row) == [name for name in row if f"`{name}`" in section("dpsim tune")]
    del answer["provenance"], same["provenance"]
    assert answer == same
    assert answer["simulated"] == 6
    assert answer["configurations"] == 9


def test_the_table_shows_the_file_beside_the_best(dpsim, tiny):
    code, out, err = dpsim("tune", tiny, *OVER, "--max-accuracy-penalty", "0")
    assert code == 0
    assert "as the file is" in out
    assert "3 simulated of 9 configurations (all), seed 0" in out
    assert (
        "left out    3 x accuracy penalty not known (--max-accuracy-penalty): compression cast"
        in out
    )
    assert err == ""


def test_best_and_front_are_files(dpsim, tiny, tmp_path):
    best, front = tmp_path / "best.yaml", tmp_path / "front.html"
    code, _, err = dpsim("tune", tiny, *OVER, "-o", best, "--html", front)
    assert code == 0
    assert f"wrote {best}: dpsim run {best}" in err
    assert load_scenario(best).strategy.overlap.kind in ("wfbp", "priority")
    assert dpsim("run", best, "--json")[0] == 0
    assert "Plotly.newPlot" in front.read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            ["--objective", "step-tim"],
            "must be a known objective, but got 'step-tim' (did you mean 'step-time'?)",
        ),
        (["--max-memory", "24"], "--max-memory: "),
        (["--budget", "0"], "--budget: must be above 0, but got 0"),
        (["--seed", "-1"], "--seed: must be at least 0, but got -1"),
        (["--seed", "4294967296"], "--seed: must be at most 4294967295, but got 4294967296"),
        (["--over", "cluster.nodes=1,x"], "--over cluster.nodes=x: cluster.nodes: "),
    ],
)
def test_mistakes_are_one_line_and_code_2(dpsim, tiny, options, message):
    code, out, err = dpsim("tune", tiny, *options)
    assert (code, out) == (2, "")
    assert err.startswith(f"dpsim: {message}")
    assert err.count("\n") == 1
