"""``dpsim trust``: how sure a prediction is, why, and what to measure."""

import json

QUICKSTART = "scenarios/quickstart.yaml"


def test_sources_are_parts_of_the_interval_and_measuring_narrows_it(dpsim):
    code, out, err = dpsim("trust", QUICKSTART, "--json")
    assert (code, err) == (0, "")
    found = json.loads(out)
    interval, run = found["interval_s"], json.loads(dpsim("run", QUICKSTART, "--json")[1])
    assert interval == run["interval_s"]
    assert {each["name"] for each in found["sources"]} == {"computing", "communication"}
    assert sum(each["share"] for each in found["sources"]) > 0.9
    assert any(each.startswith("resnet50 on v100") for each in found["nearest"])
    widths = [each["narrows_to"] for each in found["measure"]]
    assert widths == sorted(widths)
    assert widths[-1] < found["width"] == interval["high"] / interval["low"]


def test_what_was_measured_needs_no_measuring_again(dpsim):
    one = ["--set", "cluster.nodes=1", "--set", "cluster.gpus_per_node=1"]
    known = ["--set", "calibration={step_time: 300 ms, source: a test}"]
    found = json.loads(dpsim("trust", QUICKSTART, *one, *known, "--json")[1])
    assert found["width"] < 1.2
    assert found["measure"] == []
    assert found["nearest"] == ["your run on 1 node with 1 GPU each and batch 64"]


def test_the_table_shows_what_would_narrow_it(dpsim):
    out = dpsim("trust", QUICKSTART)[1]
    for words in ("90% within", "source of error", "nearest ", "measurements that narrow it"):
        assert words in out
