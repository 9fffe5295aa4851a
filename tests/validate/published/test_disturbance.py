"""How far off drawn steps and foretold faults are, of jobs and servers that were left out.

The targets: quantiles 50, 90 and 99 within 5, 10 and 20 %; the numbers stand in docs/accuracy.md.
"""

import pytest
from disturbance_faults import left_out_nodes
from disturbance_steps import left_out_jobs, other_logs, second_halves


@pytest.fixture(scope="module")
def jobs():
    return {row.job: row for row in left_out_jobs()}


def test_quantiles_of_a_job_left_out_are_within_the_targets(jobs):
    """From jobs that read their data alike, since a stall is the load of a file."""
    assert len(jobs) == 7
    median, ninety, far = (max(abs(row.quantiles[at]) for row in jobs.values()) for at in range(3))
    assert (median, ninety) == (pytest.approx(0.005, abs=2e-3), pytest.approx(0.024, abs=4e-3))
    assert far == pytest.approx(0.123, abs=0.02)


def test_runs_with_only_quantiles_are_described_too():
    """The misses: two that were disturbed throughout, three with shorter stalls."""
    logs = other_logs()
    assert len(logs) == 22
    assert sum(abs(row.ninety) < 0.1 for row in logs) == 20
    assert sum(abs(row.ninety_nine) < 0.2 for row in logs) == 17


def test_a_slow_down_of_usual_size_is_attributed_to_its_cause(jobs):
    """The target of 15 % is missed: how far a worker is slowed on purpose has no usual size."""
    reported = [jobs["AR"].slowdown, jobs["ST"].slowdown]
    assert reported == pytest.approx([0.530, 0.065], abs=0.005)
    by_others = [jobs["AR"].by_others, jobs["ST"].by_others]
    assert by_others == pytest.approx([-0.395, 0.653], abs=0.005)
    # Stragglers that stay are in every step: a job's own steps hardly show them.
    by_own = [jobs["AR"].by_own_steps, jobs["ST"].by_own_steps]
    assert by_own == pytest.approx([-0.494, -0.138], abs=0.005)


def test_the_second_half_of_a_job_is_predicted_from_the_first():
    errors = [[abs(error) for error in row.quantiles] for row in second_halves()]
    worst = [max(column) for column in zip(*errors, strict=True)]
    assert worst[0] < 0.01
    assert worst[1] < 0.02
    assert sorted(row[2] for row in errors)[-2] < 0.2 < worst[2]  # missed once, by 26 %


def test_faults_of_servers_left_out_come_in_episodes():
    """Nine in ten are wanted: independent faults would be much too sure of themselves."""
    found = left_out_nodes(300)
    assert found.rate == pytest.approx(0.89, abs=0.03)
    assert found.down == pytest.approx(0.875, abs=0.03)
    assert found.poisson < found.rate - 0.15
