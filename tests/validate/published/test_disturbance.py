"""How far off drawn steps and foretold faults are, of jobs and servers that were left out.

The targets: quantiles 50, 90 and 99 within 5, 10 and 20 %; the numbers stand in docs/accuracy.md.
"""

import pytest

from validate.published.disturbance import left_out_jobs, left_out_nodes, second_halves


@pytest.fixture(scope="module")
def jobs():
    return {row.job: row for row in left_out_jobs()}


def test_the_median_and_the_90th_percentile_of_a_job_left_out_are_met(jobs):
    assert len(jobs) == 7
    median, ninety = (max(abs(row.quantiles[at]) for row in jobs.values()) for at in (0, 1))
    assert (median, ninety) == (pytest.approx(0.012, abs=2e-3), pytest.approx(0.036, abs=4e-3))


def test_the_99th_percentile_is_missed_where_stalls_come_just_more_often_than_one_in_100(jobs):
    missed = {job for job, row in jobs.items() if abs(row.quantiles[2]) > 0.2}
    assert missed == {"2024-10-10_Muon", "2024-11-03_UntieEmbed"}


def test_a_slow_down_cannot_be_told_from_another_job(jobs):
    """The target of 15 % is missed: 1.99 and 1.20 times have causes of their own."""
    told = [jobs["AR"].slowdown, jobs["ST"].slowdown]
    assert told == pytest.approx([-0.395, 0.653], abs=0.005)


def test_the_second_half_of_a_job_is_told_from_the_first():
    errors = [[abs(error) for error in row.quantiles] for row in second_halves()]
    worst = [max(column) for column in zip(*errors, strict=True)]
    assert worst[0] < 0.01
    assert worst[1] < 0.02
    assert sorted(row[2] for row in errors)[-2] < 0.2 < worst[2]  # missed once, by 26 %


def test_faults_of_servers_left_out_come_in_episodes():
    """Nine in ten are wanted: independent faults would be much too sure of themselves."""
    found = left_out_nodes(500)
    assert found.rate == pytest.approx(0.89, abs=0.03)
    assert found.down == pytest.approx(0.875, abs=0.03)
    assert found.poisson < found.rate - 0.15
