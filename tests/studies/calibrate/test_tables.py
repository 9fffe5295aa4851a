"""Tables of measured steps: logs, exposed communication, and rows that are held out."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dpsim import load_scenario, simulate
from dpsim.base.errors import DpsimError
from dpsim.disturbance import StepLog, TimedJob
from dpsim.imports.step_logs import read_step_log
from dpsim.studies.calibrate import LOG, TRACE, calibrate, measured_runs

TEXT = """
name: mine
cluster: {nodes: 4, node: aws-g4dn, network: {fabric: single-switch}}
workload: {model: resnet18-cifar, batch_per_gpu: 512, software: reference}
run: {steps: 1, warmup: 0}
"""


def megatron(seconds):
    lines = [
        f" iteration {number:8d}/ 1000 | elapsed time per iteration (ms): {1e3 * each:.1f} |"
        for number, each in enumerate(seconds, 1)
    ]
    return "\n".join(lines)


def lightning(seconds, total):
    lines = [
        f"Epoch 0: {100 * done // total:3d}%|##  | {done}/{total} [{at // 60:02d}:{at % 60:02d}<0:10]"
        for done in range(total + 1)
        for at in [int(done * seconds)]
    ]
    return "\n".join(lines)


@pytest.fixture
def files(tmp_path):
    (tmp_path / "mine.yaml").write_text(TEXT)
    return tmp_path


# Stands for a trace of 20 steps, profiled a quarter slower, with 30 ms of exposed communication.
TRACED = StepLog("a profiler", (0.25,) * 20, single=True, exposed=0.03)


def read(files, table, sets=(), traced=TRACED):
    (files / "steps.csv").write_text(table)
    readers = {LOG: lambda path, run: read_step_log(path), TRACE: lambda path, run: traced}
    return measured_runs(files / "mine.yaml", files / "steps.csv", sets, readers)


def test_a_log_stands_for_its_median_step_after_warm_up(files):
    (files / "logs").mkdir()
    (files / "logs" / "one.log").write_text(megatron([9.0] * 10 + [0.25] * 12 + [0.4] * 5))
    (files / "two.log").write_text(lightning(0.5, 200))
    one, two, three = read(
        files,
        "cluster.nodes,log,step_time_ms\n1,logs/one.log,\n2,two.log,\n2,,260\n",
    )
    assert (one.step_time, one.place.nodes) == (0.25, 1)
    assert one.steps == (0.25,) * 12 + (0.4,) * 5
    assert two.step_time == pytest.approx(0.5, rel=0.05)
    assert two.steps == ()
    assert three.step_time == 0.26


@pytest.mark.parametrize(
    ("table", "message"),
    [
        ("log\nnone.log\n", r"steps.csv:2: log: .*none.log: cannot be read"),
        ("log,step_time_ms\nrun.log,5\n", "steps.csv:2: must have a value for step_time_ms or for"),
        ("log,step_time_ms\n,\n", "steps.csv:2: .*for step_time_ms, log or trace, but has none"),
        ("trace,exposed_ms\na,5\n", "must have a value for exposed_ms or for trace, but has both"),
        ("trace,step_time_ms\na,25\n", "exposed_ms: must be .* below the step's 25, but got '30'"),
        ("log\nbar.log\n", "steps.csv:2: log: a progress bar may count passes or steps of 2"),
        ("log,held_out\nrun.log,maybe\n", "held_out: must be yes or no, but got 'maybe'"),
        ("log,step_time_ms\n,1e300\n", "must be a step of 0.001 to 1e\\+09 ms, but got '1e300'"),
        ("cluster.nodes\n1\n", "must have the column 'step_time_ms', 'log' or 'trace'"),
    ],
)
def test_a_log_that_cannot_be_used_says_where_and_why(files, table, message):
    (files / "run.log").write_text(megatron([0.25] * 30))
    (files / "bar.log").write_text(lightning(0.5, 200))
    with pytest.raises(DpsimError, match=message):
        read(files, table, ["workload.gradient_accumulation=2"])


def test_a_trace_tells_exposed_communication_and_the_step_where_nothing_else_does(files):
    (files / "run.log").write_text(megatron([9.0] * 10 + [0.2] * 12))
    table = "trace,step_time_ms,log\na,,\na,210,\na,,run.log\n"
    separate, stated, logged = read(files, table)
    assert [run.exposed for run in (separate, stated, logged)] == [0.03] * 3
    assert [run.step_time for run in (separate, stated, logged)] == [0.25, 0.21, 0.2]
    assert [len(run.steps) for run in (separate, stated, logged)] == [20, 0, 12]


def test_ranks_are_distinguished_by_a_trace_beside_a_log(files):
    (files / "run.log").write_text(megatron([9.0] * 10 + [0.2] * 12))
    ranks = TimedJob(np.array([[0.1, 0.2]] * 20), [0, 1], [0, 0])
    traced = replace(TRACED, by_rank=ranks)
    (run,) = read(files, "trace,log\na,run.log\n", traced=traced)
    assert run.by_rank is ranks


def test_a_trace_of_several_ranks_must_have_their_collectives(files):
    silent = StepLog("a profiler", (0.25,), single=True)
    (one,) = read(files, "cluster.nodes,cluster.gpus_per_node,trace\n1,1,a\n", traced=silent)
    assert one.exposed is None
    with pytest.raises(DpsimError, match="trace: must have kernels of NCCL for 4 ranks"):
        read(files, "cluster.nodes,trace\n1,a\n", traced=silent)


def test_a_table_of_single_steps_is_a_run_of_the_scenario_itself(files):
    (run,) = read(files, "rank,step_ms\n" + "0,100\n1,120\n" * 30)
    assert (run.place.nodes, run.step_time, len(run.steps)) == (4, 0.12, 30)
    assert run.by_rank.slow_down == pytest.approx(12 / 11)


def test_logs_of_single_steps_tell_jitter(files):
    draws = np.exp(0.05 * np.random.default_rng(0).standard_normal(400))
    (files / "one.log").write_text(megatron([9.0] * 10 + list(0.25 * draws)))
    runs = read(files, "cluster.nodes,cluster.gpus_per_node,log\n1,1,one.log\n")
    found = calibrate(runs, load_scenario(files / "mine.yaml"))
    answer = found.to_json()
    assert answer["jitter"]["job_sigma"] == pytest.approx(0.05, rel=0.15)
    assert answer["rows"][0]["spread"] == pytest.approx(0.05, rel=0.15)
    assert answer["rows"][0]["steps"] == 400
    (files / "own.json").write_text(found.profile.to_json())
    sets = ["calibration=own.json", "cluster.nodes=1", "cluster.gpus_per_node=1", "run.steps=400"]
    result = simulate(load_scenario(files / "mine.yaml", sets))
    one = result.step_time_s
    assert one["p95"] / one["median"] == pytest.approx(np.exp(1.645 * 0.05), rel=0.03)


def test_rows_that_are_held_out_are_predicted_as_a_run_is_and_not_fitted_to(files):
    table = (
        "cluster.nodes,cluster.gpus_per_node,workload.batch_per_gpu,step_time_ms,held_out\n"
        "1,1,64,48,\n1,1,512,250,no\n1,4,256,170,\n2,4,256,260,\n4,4,256,300,yes\n"
    )
    target = load_scenario(files / "mine.yaml")
    found = calibrate(read(files, table), target)
    without = calibrate(read(files, table.replace("4,4,256,300,yes\n", "")), target)
    assert found.found.constants == without.found.constants
    (row,) = found.held_out
    assert (row["nodes"], row["measured_ms"]) == (4, 300)
    (files / "own.json").write_text(found.profile.to_json())
    sets = ["calibration=own.json", "workload.batch_per_gpu=256"]
    result = simulate(load_scenario(files / "mine.yaml", sets))
    assert row["predicted_ms"] == pytest.approx(1e3 * result.step_time_s["mean"])
    assert row["high_ms"] == pytest.approx(1e3 * result.interval.high)
    error = abs(row["predicted_ms"] / 300 - 1)
    assert found.to_json()["held_out"]["median_ape"] == pytest.approx(error)
    json.dumps(found.to_json())


def test_some_rows_must_be_fitted_to(files):
    runs = read(files, "step_time_ms,held_out\n100,yes\n")
    with pytest.raises(DpsimError, match="must have at least 1 measured run"):
        calibrate(runs, load_scenario(files / "mine.yaml"))


def test_a_step_that_no_constant_explains_is_fitted_as_far_as_constants_go(files):
    runs = read(files, "cluster.nodes,step_time_ms\n1,100\n2,1e8\n")
    found = calibrate(runs, load_scenario(files / "mine.yaml"))
    assert found.found.constants.host <= 1e3
    assert any("are off by" in each for each in found.warnings)
