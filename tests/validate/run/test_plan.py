"""The plan of recorded steps.

Every case can be run and predicted, and what is recorded holds what comparisons need.
"""

from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.torch

if find_spec("torch"):
    from dpsim.engine import run_scenario
    from dpsim.engine.steps import Steps
    from validate.emulate import Case, Measured, check
    from validate.records import RunRecords, load_run_records, save_run_records
    from validate.run import load_plan, step_run
    from validate.run.step_run import EVERY_STEP

ROOT = Path(__file__).parents[3]
PLAN = ROOT / "validate" / "recorded" / "steps.yaml"


@pytest.fixture
def at_root(monkeypatch):
    monkeypatch.chdir(ROOT)


@pytest.mark.usefixtures("at_root")
def test_the_plan_can_be_run_and_names_no_case_twice():
    cases = list(load_plan(PLAN).cases())
    assert len(cases) >= 30
    assert len({(group.setting, variant.name) for group, variant, _ in cases}) == len(cases)
    for _, _, case in cases:
        check(case.job())


@pytest.mark.usefixtures("at_root")
def test_the_recorded_cases_are_those_of_the_plan():
    planned = {
        f"{group.setting}: {variant.name}": list(case.set)
        for group, variant, case in load_plan(PLAN).cases()
    }
    recorded = load_run_records(ROOT / "validate" / "recorded" / "steps.json.gz").runs
    assert {record.name: record.case["set"] for record in recorded} == planned


def predicted(case):
    return run_scenario(case.scenario(), EVERY_STEP)


def made(workers, seconds, count):
    steps = Steps.empty(count, workers)
    steps.compute[:] = seconds
    return Measured(steps, {"all": seconds / 2})


@pytest.mark.usefixtures("at_root")
def test_a_run_counts_the_steps_after_warm_up_of_the_median_repetition(tmp_path):
    case = Case("scenarios/testbed/allreduce.yaml", ("run.steps=3", "run.warmup=1"))
    run = step_run(case, predicted(case), [made(4, seconds, 4) for seconds in (0.3, 0.9, 0.35)])
    assert run.measured.step_time_s["mean"] == pytest.approx(0.35)
    assert run.repetitions_s == pytest.approx((0.3, 0.9, 0.35))
    assert run.collectives["all"] == {
        "predicted_s": pytest.approx(0.1277, rel=0.01),
        "measured_s": pytest.approx(0.175),
    }
    assert run.error["compute_s"] == pytest.approx(0.152 - 0.35)
    assert set(run.to_json()["measured"]) == set(run.to_json()["predicted"])
    records = RunRecords(runs=(run.record("one", "here"),))
    save_run_records(tmp_path / "runs.json.gz", records)
    (record,) = load_run_records(tmp_path / "runs.json.gz").runs
    assert (record.name, record.setting, record.measured_s) == (
        "one",
        "here",
        pytest.approx((0.35,)),
    )
    assert record.case["measured"]["parts_s"]["compute"] == pytest.approx(0.35)


@pytest.mark.usefixtures("at_root")
def test_a_failed_run_keeps_what_it_measured_and_says_so():
    case = Case("scenarios/testbed/allreduce.yaml", ("run.steps=3", "run.warmup=1"))
    run = step_run(
        case, predicted(case), [made(4, 0.3, 2)], "rank 1 on host1 was killed by SIGKILL"
    )
    assert run.record().notes == ("partial: rank 1 on host1 was killed by SIGKILL",)
    assert run.record().partial
    assert run.to_json()["partial"]
    assert step_run(case, predicted(case), [made(4, 0.3, 1)], "too early") is None
