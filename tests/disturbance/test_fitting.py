"""What was drawn is found again: the parts of a disturbance, from step times."""

import csv
import io
from pathlib import Path

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.disturbance import CorrelatedJitterConfig, TimedJob, fit_jitter, pooled, steps_in


def drawn(workers, steps, per_node=4, **fields):
    config = {"kind": "correlated", "sigma": 0, "stall": 1, **fields}
    return CorrelatedJitterConfig.model_validate(config).factors(workers, steps, 1, per_node)


def nodes(workers, per_node=4):
    return [worker // per_node for worker in range(workers)]


def test_levels_and_their_memory_are_separated():
    times = drawn(16, 20_000, sigma=0.02, node_sigma=0.03, job_sigma=0.01, memory=5)
    found = fit_jitter(times, nodes(16)).jitter
    assert found.sigma == pytest.approx(0.02, rel=0.05)
    assert found.node_sigma == pytest.approx(0.03, rel=0.05)
    assert found.job_sigma == pytest.approx(0.01, rel=0.15)
    assert found.memory == pytest.approx(5, rel=0.1)
    assert (found.stall, found.delay_chance) == (1, pytest.approx(0, abs=1e-3))


def test_memory_of_the_job_is_separated_from_that_of_workers():
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
        ("job,step_ms\n" + "a,1\n" * 20 + "b,1\n" * 20, "the steps of one job, but has a, b"),
    ],
)
def test_steps_that_cannot_be_used_say_why(text, rule):
    table = csv.DictReader(io.StringIO(text), restval="")
    with pytest.raises(DpsimError, match=rule):
        steps_in(Path("steps.csv"), table.fieldnames, [*table])


def test_steps_of_several_jobs_are_pooled_over_their_medians():
    jobs = [
        TimedJob(seconds * drawn(1, 400, job_sigma=sigma), [0], [0])
        for seconds, sigma in ((1.0, 0.02), (3.0, 0.01))
    ]
    times, nodes = pooled(jobs)
    assert len(times) == 800
    assert fit_jitter(times, nodes).jitter.job_sigma == pytest.approx(0.0158, rel=0.1)
    single, _ = pooled(jobs[1:])
    assert np.median(single) == pytest.approx(3, rel=0.01)


@pytest.mark.parametrize(("row", "column"), [(7, slice(None)), (slice(None), 2)])
def test_times_that_no_scenario_may_have_are_refused(row, column):
    times = np.ones((40, 4))
    times[row, column] = 1e7
    with pytest.raises(DpsimError, match="step times: must show a disturbance that a scenario may"):
        fit_jitter(times, [0, 0, 1, 1])
