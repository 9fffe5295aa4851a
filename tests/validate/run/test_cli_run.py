"""``dpsim validate run``.

On loopback under a launcher, on a testbed, and what it says where it cannot.
"""

import json
import sys
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from again import measured_again
from json_docs import documented_keys

pytestmark = pytest.mark.torch

ROOT = Path(__file__).parents[3]
SCENARIO = str(ROOT / "scenarios" / "testbed" / "allreduce.yaml")


@pytest.fixture
def dpsim(dpsim):
    """Runs ``dpsim validate run``; answers exit code, stdout and stderr."""

    return lambda *args: dpsim("validate", "run", *args)


@pytest.fixture(scope="module")
def measured_once():
    """The network that learns is the same in every real run.

    Its layers are measured in the first and known in the others.
    """
    from validate.run import real

    with pytest.MonkeyPatch.context() as patch:
        known = cache(real._measured_profile)
        patch.setattr(real, "_measured_profile", known)
        yield known


def test_ranks_of_a_launcher_run_it_and_rank_0_answers():
    """As torchrun does: RANK and WORLD_SIZE in the environment."""
    from validate.ranks.launch import launch, loopback

    command = [
        sys.executable,
        "-m",
        "validate",
        "run",
        SCENARIO,
        "--set",
        "testbed.hosts=2",
        "--set",
        "run.steps=3",
        "--json",
    ]

    def measure():
        ranks = launch(command, loopback(2), timeout_s=120, preload=["validate.run"]).ranks
        assert ranks[1].stdout == ""
        return json.loads(ranks[0].stdout)

    measured_again(check_emulated, measure)


def check_emulated(content):
    assert set(content) - {"schema_version", "kind"} == set(documented_keys("dpsim validate run"))
    predicted, measured = content["predicted"], content["measured"]
    assert set(predicted) == set(measured)
    assert measured["parts_s"]["compute"] == pytest.approx(0.152, rel=0.2)
    assert sum(measured["parts_s"].values()) == pytest.approx(measured["step_time_s"]["mean"])
    assert (
        measured["step_time_s"]["mean"] < predicted["step_time_s"]["mean"] + 0.1
    )  # loopback is faster than the testbed's links
    assert (
        content["error"]["step_time"]
        == predicted["step_time_s"]["mean"] / measured["step_time_s"]["mean"] - 1
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--compute", "both"], "--compute must be real or timed"),
        (["--timeout", "soon"], "--timeout"),
        (["--testbed", "hosts=none"], "testbed.hosts"),
        (
            ["--set", "testbed=null", "--set", "cluster={nodes: 2, node: testbed-host}"],
            "workload.model: must be one that torch can build",
        ),
        (
            ["--set", "strategy.aggregation={kind: allreduce, library: mpi}"],
            "library: must be ideal or auto or gloo",
        ),
        (
            ["--compute", "real", "--set", "strategy.overlap.kind=priority"],
            "with a method for real computing",
        ),
        (
            ["--compute", "real", "--set", "disturbance.background=[{source: 0, destination: 1}]"],
            "must be left out of real runs",
        ),
    ],
)
def test_what_cannot_be_run_is_exit_code_2_with_the_reason(dpsim, arguments, message):
    code, out, err = dpsim(SCENARIO, *arguments)
    assert (code, out) == (2, "")
    assert message in err


@pytest.mark.testbed
def test_on_the_testbed_the_step_is_about_as_predicted(dpsim, tmp_path, brisk):
    from validate.records import load_run_records

    path = tmp_path / "run.json"
    few = ["--set", "run.steps=6", "--set", brisk, "--repeat", 2]

    def measure():
        code, out, _ = dpsim(SCENARIO, "--testbed", "hosts=2,rate=200 Mbit/s", *few, "-o", path)
        assert code == 0
        assert "a step" in out
        (record,) = load_run_records(path).runs
        return record

    def check(record):
        assert abs(record.error) < 0.25
        assert record.case["set"][1] == "testbed={hosts: 2,rate: 200 Mbit/s}"

    measured_again(check, measure)


@pytest.mark.testbed
def test_a_run_that_does_not_end_in_time_fails_and_keeps_what_it_measured(dpsim, tmp_path, brisk):
    from validate.records import load_run_records

    path = tmp_path / "run.json"
    sets = ["--set", "testbed.hosts=2", "--set", "run.steps=500", "--set", brisk]

    def measure(limit):
        return limit, *dpsim(SCENARIO, *sets, "--timeout", limit, "-o", path, "--json")

    def check(found):
        limit, code, out, err = found
        assert code == 1
        assert f"had not finished after {limit}" in err
        assert out
        assert json.loads(out)["partial"]
        (record,) = load_run_records(path).runs
        assert record.partial
        assert limit in record.notes[0]

    # Where the start takes the first of them, there is nothing to keep.
    measured_again(check, measure, "2 s", "8 s", "30 s")


@pytest.mark.testbed
@pytest.mark.usefixtures("measured_once")
def test_real_computing_has_its_own_prediction(dpsim):
    few = ["--set", "testbed.hosts=2", "--set", "run.steps=4", "--json"]

    def measure():
        code, out, _ = dpsim(SCENARIO, "--compute", "real", *few)
        assert code == 0
        return json.loads(out)["measured"]["parts_s"]

    def check(parts):
        assert parts["exposed_comm"] > 0.01  # 0.3 MB at 100 Mbit/s

    measured_again(check, measure)


@pytest.mark.testbed
def test_real_computing_of_a_slow_worker_is_waited_for(measured_once):
    """Worker 1 computes eight times as long by waiting, and worker 0 waits for it in gloo's
    all-reduce.
    """
    from validate.emulate import Case
    from validate.run import real_run

    slow = "disturbance.slow=[{workers: [1], factor: 8}]", "strategy.aggregation.library=gloo"
    case = Case(SCENARIO, ("testbed.hosts=2", "run.steps=16", *slow))

    def check(run):
        predicted, measured = (
            np.quantile(each.steps.step, 0.25) for each in (run.predicted, run.measured)
        )
        if predicted != pytest.approx(measured, rel=0.25):
            measured_once.cache_clear()  # its layers may have been held up
        assert predicted == pytest.approx(measured, rel=0.25)

    measured_again(check, lambda: real_run(case))
