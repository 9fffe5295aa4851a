"""Errors, choices and causes of a few made-up runs, and the command that prints them."""

import gzip
import json
from pathlib import Path

import pytest
from json_docs import documented_keys

from dpsim import cli
from dpsim.base.errors import DpsimError
from validate.compare.comparison import Comparison, cause, predict_again
from validate.compare.figure import comparison_figure, page
from validate.records import RunRecord, RunRecords

ROOT = Path(__file__).parents[3]


def step(name, predicted, measured, *, setting="", fitted=False, partial=False, parts=None, **case):
    sides = {side: {"parts_s": values} for side, values in (parts or {}).items()}
    return RunRecord(
        kind="step", name=name, setting=setting, case={**case, **sides}, measured_s=(measured,), predicted_s=predicted,
        fitted=fitted, partial=partial,
    )  # fmt: skip


def collective(name, predicted, measured, nbytes=2**20):
    return RunRecord(
        kind="collective",
        name=name,
        case={"bytes": nbytes},
        measured_s=(measured,),
        predicted_s=predicted,
    )


def test_errors_are_of_what_counts_by_kind():
    records = [
        step("one", 1.1, 1.0, aggregation="allreduce"),
        step("two", 0.7, 1.0, aggregation="gossip"),
        step("fitted", 9.0, 1.0, fitted=True),
        step("partial", 9.0, 1.0, partial=True),
        step("open", None, 1.0),
        collective("small", 2.0, 1.0, 2**10),
        collective("large", 1.0, 1.0),
    ]
    comparison = Comparison(records)
    steps = comparison.groups["steps"]
    assert (steps.n, steps.worst) == (2, "two")
    assert (steps.mean_ape, steps.worst_ape) == pytest.approx((0.2, 0.3))
    assert comparison.groups["steps, aggregation gossip"].n == 1
    assert comparison.groups["collectives, below 256 KiB"].mean_ape == 1.0
    assert comparison.groups["collectives, from 256 KiB"].mean_ape == 0.0
    assert comparison.within(0.5)
    assert not comparison.within(0.3)
    content = comparison.to_json()
    assert (content["fitted_on"], content["partial"], content["not_predicted"]) == (
        1,
        ["partial"],
        ["open"],
    )


def test_a_choice_is_right_where_it_costs_little():
    records = [
        step("a", 1.0, 1.2, setting="here"),
        step("b", 1.1, 1.0, setting="here"),
        step("c", 1.0, 1.02, setting="there"),
        step("d", 1.1, 1.0, setting="there"),
    ]
    wrong, right = Comparison(records).to_json()["choices"]
    assert (wrong["setting"], wrong["right"], wrong["regret"]) == (
        "here",
        False,
        pytest.approx(0.2),
    )
    assert (right["setting"], right["right"]) == ("there", True)
    assert Comparison(records).to_json()["choices_right"] == 0.5


def test_the_part_that_is_off_most_is_named():
    parts = {
        "predicted": {"compute": 0.1, "exposed_comm": 0.05},
        "measured": {"compute": 0.101, "exposed_comm": 0.08},
    }
    found = cause(step("slow", 0.15, 0.181, parts=parts))
    assert found.part == "exposed_comm"
    assert str(found) == (
        "slow: predicted -17.1%; exposed communication is 30.0 ms too little (50.0 ms, "
        "measured 80.0 ms)"
    )
    assert str(cause(collective("ring", 1.0, 2.0))) == "ring: predicted -50.0%"


def test_the_picture_has_a_point_for_each_case_and_the_page_names_the_worst():
    comparison = Comparison([step("<worst>", 2.0, 1.0), collective("ring", 1.0, 1.0)])
    points = {
        trace.name: list(zip(trace.x, trace.y, strict=True))
        for trace in comparison_figure(comparison).data
    }
    assert points["over a factor of 1.25 off, without an interval (1)"] == [(1.0, 2.0)]
    assert points["collectives (1)"] == [(1.0, 1.0)]
    text = page(comparison)
    assert "&lt;worst&gt;: predicted +100.0%" in text
    assert "<worst>" not in text.split("</script>")[-1]


def test_a_step_is_predicted_again_from_its_scenario(monkeypatch):
    monkeypatch.chdir(ROOT)
    sets = ["run.steps=2", "strategy.sync.kind=asp"]
    old = step("old", 9.0, 0.28, scenario="scenarios/testbed/allreduce.yaml", set=sets)
    (new,) = predict_again([old])
    assert new.median_s == old.median_s
    assert new.predicted_s == pytest.approx(0.28, rel=0.02)
    assert new.case["predicted"]["parts_s"]["compute"] == pytest.approx(0.152)
    with pytest.raises(DpsimError, match="must name its scenario"):
        predict_again([step("lost", 1.0, 1.0)])


@pytest.fixture
def dpsim(monkeypatch, capsys, tmp_path):
    """Runs ``dpsim validate compare`` on two files; answers exit code, stdout and stderr."""
    one, other = tmp_path / "one.json", tmp_path / "other.json.gz"
    one.write_text(step("one", 1.1, 1.0).model_dump_json())
    other.write_bytes(
        gzip.compress(
            RunRecords(runs=(step("two", 1.0, 1.0), collective("ring", 1.3, 1.0)))
            .to_json()
            .encode()
        )
    )

    def call(*arguments):
        monkeypatch.setattr(
            "sys.argv", ["dpsim", "validate", "compare", str(one), str(other), *map(str, arguments)]
        )
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, *capsys.readouterr()

    return call


def test_the_command_prints_errors_and_the_worst_cases(dpsim):
    code, out, _ = dpsim()
    assert code == 0
    assert ["steps", "2", "5.0%", "5.0%", "9.5%", "10.0%"] in [
        line.replace("│", " ").split() for line in out.splitlines()
    ]
    assert "ring: predicted +30.0%" in out


@pytest.mark.parametrize(
    ("tolerance", "status"),
    [("40%", 0), ("0.2", 3), ("20%", 3), ("150%", 0), ("some", 2), ("10", 2)],
)
def test_a_broken_tolerance_is_exit_code_3(dpsim, tolerance, status):
    code, _, err = dpsim("--tolerance", tolerance)
    assert code == status
    assert bool(err) == bool(status)


def test_its_json_is_as_documented(dpsim, tmp_path):
    code, out, _ = dpsim("--json", "--html", tmp_path / "report.html")
    content = json.loads(out)
    assert code == 0
    keys = documented_keys("dpsim validate compare")
    assert set(content) == {"schema_version", "kind", *keys}
    assert "Predicted and measured" in (tmp_path / "report.html").read_text()


def test_recorded_steps_are_predicted_within_the_target(monkeypatch):
    """At least 30 cases; 4 % on average, 8 % at the 95th percentile."""
    monkeypatch.chdir(ROOT)
    from validate.records import load_run_records

    comparison = Comparison(predict_again(load_run_records("validate/recorded/steps.json.gz").runs))
    steps = comparison.groups["steps"]
    assert steps.n >= 30
    assert steps.mean_ape <= 0.04
    assert steps.p95_ape <= 0.08
    assert all(choice.regret <= 0.05 for choice in comparison.choices)


def test_folders_are_read_whole_with_the_scenarios_beside_the_runs(tmp_path):
    """As measurements are contributed: hardware, model, then scenario and runs."""
    from validate.records import RunRecord, RunRecords, records_of, save_run_records

    folder = tmp_path / "dgx-h100" / "gpt2"
    folder.mkdir(parents=True)
    (folder / "scenario.yaml").write_text("name: there\n")
    for number, scenario in enumerate(("/elsewhere/scenario.yaml", "/elsewhere/other.yaml")):
        case = {"scenario": scenario, "set": []}
        run = RunRecord(kind="step", name=f"run {number}", case=case, measured_s=(1.0,))
        save_run_records(folder / f"run-{number}.json", RunRecords(runs=(run,)))
    (folder / "profile.json").write_text("{}")
    first, second = records_of([tmp_path])
    assert first.case["scenario"] == str(folder / "scenario.yaml")
    assert second.case["scenario"] == "/elsewhere/other.yaml"
    (tmp_path / "empty").mkdir()
    with pytest.raises(DpsimError, match=r"must have files run\*\.json below it, but has none"):
        records_of([tmp_path / "empty"])


@pytest.mark.parametrize(
    "seconds", [{"predicted_s": 1e308}, {"measured_s": [1e-308]}, {"measured_s": [0.0]}]
)
def test_a_record_of_times_that_nothing_takes_is_refused(seconds):
    reported = {"kind": "step", "name": "one", "case": {}, "measured_s": [1.0], "predicted_s": 1.0}
    with pytest.raises(ValueError, match=next(iter(seconds))):
        RunRecord.model_validate({**reported, **seconds})
