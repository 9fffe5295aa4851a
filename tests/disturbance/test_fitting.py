"""What was drawn is found again: the parts of a disturbance, from step times."""

import json
from pathlib import Path

import numpy as np
import pytest

from dpsim import cli
from dpsim.base.errors import DpsimError
from dpsim.disturbance import CorrelatedJitterConfig, fit_jitter, pooled, read_jobs
from dpsim.scenario import load_scenario

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "scenarios" / "quickstart.yaml"


def drawn(workers, steps, per_node=4, **fields):
    config = {"kind": "correlated", "sigma": 0, "stall": 1, **fields}
    return CorrelatedJitterConfig.model_validate(config).factors(workers, steps, 1, per_node)


def nodes(workers, per_node=4):
    return [worker // per_node for worker in range(workers)]


def test_levels_are_told_apart_and_so_is_their_memory():
    times = drawn(16, 20_000, sigma=0.02, node_sigma=0.03, job_sigma=0.01, memory=5)
    found = fit_jitter(times, nodes(16)).jitter
    assert found.sigma == pytest.approx(0.02, rel=0.05)
    assert found.node_sigma == pytest.approx(0.03, rel=0.05)
    assert found.job_sigma == pytest.approx(0.01, rel=0.15)
    assert found.memory == pytest.approx(5, rel=0.1)
    assert (found.stall, found.delay_chance) == (1, pytest.approx(0, abs=1e-3))


def test_what_the_job_remembers_is_told_apart_from_what_workers_do():
    """A slow spell of all, beside workers that vary anew in each step, and the other way round."""
    for memory, job_memory in ((0, 20), (20, 0)):
        times = drawn(8, 20_000, sigma=0.03, job_sigma=0.03, memory=memory, job_memory=job_memory)
        found = fit_jitter(times, nodes(8)).jitter
        assert (found.memory, found.job_memory) == pytest.approx((memory, job_memory), rel=0.15)
        assert (found.sigma, found.job_sigma) == pytest.approx((0.03, 0.03), rel=0.1)


@pytest.mark.parametrize("steps", [40, 400])
def test_workers_by_themselves_show_no_memory_of_the_job(steps):
    """By chance one fit of 40 finds one."""
    times = np.split(drawn(8, 40 * steps, sigma=0.02), 40)
    found = [fit_jitter(each, nodes(8)).jitter.job_memory for each in times]
    assert sum(memory > 0 for memory in found) <= 3


def test_stalls_delays_and_slow_workers_are_taken_off_first():
    times = 0.3 * drawn(
        8, 20_000, sigma=0.005, stall_every=100, stall=2, delay_chance=0.01, delay=0.2
    )
    times[:, 5] *= 1.4
    found = fit_jitter(times, nodes(8))
    assert [(each.workers, each.factor) for each in found.slow] == [
        ((5,), pytest.approx(1.4, rel=0.01))
    ]
    jitter = found.jitter
    assert (jitter.stall_every, jitter.stall) == pytest.approx((100, 2), rel=0.02)
    assert jitter.delay_chance == pytest.approx(0.01, rel=0.15)  # the shortest pass for jitter
    assert jitter.delay == pytest.approx(0.2, rel=0.15)
    assert jitter.sigma == pytest.approx(0.005, rel=0.1)


def test_a_heavy_tail_is_found():
    light, heavy = (
        fit_jitter(drawn(4, 50_000, sigma=0.001, delay_chance=0.05, delay_tail=tail), nodes(4))
        for tail in (1000, 4)
    )
    assert heavy.jitter.delay_tail == pytest.approx(4, rel=0.3)
    assert light.jitter.delay_tail > 20


def test_whole_steps_are_all_the_jobs():
    found = fit_jitter(drawn(1, 20_000, sigma=0.03), [0]).jitter
    assert (found.sigma, found.node_sigma) == (0, 0)
    assert found.job_sigma == pytest.approx(0.03, rel=0.02)


def written(folder, times, per_node=4):
    path = folder / "steps.csv"
    lines = ["step,rank,node,step_ms"]
    for step, row in enumerate(times):
        for rank, seconds in enumerate(row):
            lines.append(f"{step},{rank},{rank // per_node},{1e3 * seconds}")
    path.write_text("\n".join(lines))
    return path


def call(monkeypatch, *args):
    monkeypatch.setattr("sys.argv", ["dpsim", *map(str, args)])
    with pytest.raises(SystemExit) as exit_:
        cli.main()
    return exit_.value.code or 0


def test_the_command_writes_a_block_that_a_scenario_takes(tmp_path, monkeypatch):
    times = drawn(8, 200, sigma=0.02, job_sigma=0.05)
    times[:, 2] *= 1.5
    block, scenario = tmp_path / "disturbance.yaml", tmp_path / "scenario.yaml"
    assert call(monkeypatch, "fit-jitter", written(tmp_path, times), "-o", block) == 0
    kept, rest = QUICKSTART.read_text().split("disturbance:\n")
    scenario.write_text(kept + block.read_text() + rest[rest.index("run:") :])
    loaded = load_scenario(scenario).disturbance
    assert loaded.jitter == fit_jitter(times, nodes(8)).jitter
    assert loaded.slow[0].workers == (2,)


def test_ranks_keep_their_numbers_and_what_the_slow_one_costs_is_said(tmp_path, dpsim):
    times = np.ones((40, 4))
    times[:, 2] *= 1.5
    path = tmp_path / "steps.csv"
    rows = [f"{8 + rank},{time}" for row in times for rank, time in enumerate(row)]
    path.write_text("\n".join(["rank,step_s", *rows]))
    code, out, err = dpsim("fit-jitter", path, "--json")
    assert code == 0
    told = json.loads(out)
    assert told["disturbance"]["slow"] == [{"workers": [10], "factor": 1.5}]
    assert told["jobs"][0]["slow_down"] == pytest.approx(1.5)
    _, _, err = dpsim("fit-jitter", path)
    assert err.splitlines()[:2] == [
        "rank 10 takes 1.50 times as long as the median rank",
        "a step takes 1.50 times as long as without stragglers",
    ]


def test_of_many_jobs_the_least_and_the_most_slow_down_are_said(tmp_path, dpsim):
    lines = ["job,rank,step_s"]
    for job in range(6):
        # One rank of four is job / 10 slower than the others.
        seconds = (1.0, 1.0, 1.0, 1.0 + job / 10)
        lines += [f"j{job},{rank},{time}" for _ in range(20) for rank, time in enumerate(seconds)]
    path = tmp_path / "jobs.csv"
    path.write_text("\n".join(lines))
    code, _, err = dpsim("fit-jitter", path)
    assert code == 0
    (said,) = (line for line in err.splitlines() if "stragglers" in line)
    assert "1.00 (j0) to 1.50 (j5) times" in said
    _, _, err = dpsim("fit-jitter", path, "--job", "j3")
    assert "a step of j3 takes 1.30 times as long as without stragglers" in err.splitlines()


def test_the_json_has_the_keys_of_the_documentation(tmp_path, monkeypatch, capsys):
    path = written(tmp_path, drawn(4, 50, sigma=0.02))
    assert call(monkeypatch, "fit-jitter", path, "--json") == 0
    told = json.loads(capsys.readouterr().out)
    text = (ROOT / "docs" / "json.md").read_text()
    section = text.split("## `dpsim fit-jitter FILE --json`")[1].split("\n## ")[0]
    assert all(f"`{key}`" in section for key in told if key not in ("schema_version", "kind"))
    assert (told["steps"], told["ranks"]) == (50, 4)


def times_of(path, job=None):
    """The step times in a file, and each rank's node."""
    return pooled(path, list(read_jobs(path, job).values()))


def two_jobs(folder, scale=3, ranks=1):
    """The second is ``scale`` times as slow and has half as much jitter."""
    lines = ["job,step,rank,step_s,mean_without_stragglers_s"]
    for job, sigma, seconds in (("a", 0.02, 1.0), ("b", 0.01, scale)):
        for step, row in enumerate(seconds * drawn(ranks, 400, job_sigma=sigma)):
            cells = (f"{job},{step},{rank},{time},{seconds / 2}" for rank, time in enumerate(row))
            lines += cells
    path = folder / "jobs.csv"
    path.write_text("\n".join(lines))
    return path


def test_jobs_of_one_file_are_pooled_over_their_medians(tmp_path):
    path = two_jobs(tmp_path)
    times, _ = times_of(path)
    assert len(times) == 800
    assert fit_jitter(times, [0]).jitter.job_sigma == pytest.approx(0.0158, rel=0.1)
    alone, _ = times_of(path, "b")
    assert np.median(alone) == pytest.approx(3, rel=0.01)
    assert fit_jitter(alone, [0]).jitter.job_sigma == pytest.approx(0.01, rel=0.1)
    assert [job.slow_down for job in read_jobs(path).values()] == pytest.approx([2, 2], rel=0.01)


def test_a_job_that_is_not_there_is_refused(tmp_path):
    with pytest.raises(DpsimError, match="--job must be one of a, b, but got 'c'"):
        times_of(two_jobs(tmp_path), "c")


def test_what_was_fitted_is_shown_beside_what_was_measured():
    times = drawn(4, 20_000, sigma=0.05, delay_chance=0.02, delay=0.3)
    times[:, 1] *= 1.3
    for row in fit_jitter(times, nodes(4)).quantiles(times, nodes(4)):
        assert row["drawn"] == pytest.approx(row["measured"], rel=0.06)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("step,time\n1,2\n", "must have one of the columns step_ms"),
        ("step_ms\n" + "1\n" * 19, "must have at least 20 steps"),
        ("step_ms\n" + "1\n" * 30 + "-1\n", r":32: step_ms: must be above 0, but got '-1'"),
        ("step_ms\n" + "1\n" * 30 + "fast\n", r":32: must be a number, but got 'fast'"),
        ("rank,step_ms\n" + "0,1\n1,1\n" * 30 + "1,1\n", "as many of each rank"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path, text, rule):
    path = tmp_path / "steps.csv"
    path.write_text(text)
    with pytest.raises(DpsimError, match=rule):
        times_of(path)


def test_the_columns_mean_what_they_say(tmp_path):
    path = tmp_path / "steps.csv"
    path.write_text("step_s\n" + "0.25\n" * 20)
    times, where = times_of(path)
    assert np.array_equal(times, np.full((20, 1), 0.25))
    assert where == [0]


def test_a_file_that_is_no_csv_is_one_clear_line(dpsim, tmp_path):
    path = tmp_path / "x.csv"
    path.write_bytes(b"step_ms,rank\n100,0\n\r0,3\n101")
    code, _, err = dpsim("fit-jitter", path)
    assert code == 2
    assert err.startswith(f"dpsim: {path}: must be a CSV file, but: new-line character")


@pytest.mark.parametrize(("row", "column"), [(7, slice(None)), (slice(None), 2)])
def test_times_that_no_scenario_may_have_are_refused(row, column):
    times = np.ones((40, 4))
    times[row, column] = 1e7
    with pytest.raises(DpsimError, match="step times: must show a disturbance that a scenario may"):
        fit_jitter(times, [0, 0, 1, 1])
