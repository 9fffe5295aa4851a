"""Throughput, efficiency and traffic where workers need not keep pace with the slowest."""

import pytest

from dpsim import simulate
from dpsim.report.text.tables import run_notes

# Three workers take 10.5 s a step, the fourth ten times as long.
ONE_SLOW = {"slow": [{"workers": [3], "factor": 10}]}
INSTANT = {"nic": {"rate": "1 PB/s", "latency": 0}, "fabric": "single-switch", "nics_per_node": 1}


def run(tiny, **strategy):
    return simulate(tiny(4, cluster={"network": INSTANT}, disturbance=ONE_SLOW, **strategy))


@pytest.mark.parametrize(("aggregation", "step"), [("allreduce", 10.5), ("parameter-server", 10)])
def test_asynchronous_workers_count_at_their_own_pace(tiny, aggregation, step):
    """Without communication each is as fast as a single one: 8 / 10.5 s, the slow one 8 / 105 s.

    At servers the optimiser's 0.5 s are not the workers'.
    """
    result = run(tiny, aggregation=aggregation, sync="asp")
    assert result.throughput_samples_per_s == pytest.approx(8 * 3.1 / step, rel=1e-3)
    assert result.scaling_efficiency == pytest.approx(1, rel=0.05)


def test_gradients_that_come_after_the_last_round_are_late_too(tiny):
    """The others take ten steps to one of the slow worker: its gradients are nine or ten updates
    late, also those of the 45 steps that it takes when the others have done theirs.
    """
    cluster = {"network": INSTANT}
    scenario = tiny(4, cluster=cluster, disturbance=ONE_SLOW, sync="asp", run={"steps": 50})
    versions = simulate(scenario).steps.versions
    assert set(versions[1:, 3]) <= {9, 10}
    assert set(versions[:, :3].ravel()) <= {0, 1}


def test_backup_workers_are_no_more_efficient_than_independent_workers(tiny):
    """The slow one is not waited for, and its gradients do not count."""
    result = run(tiny, sync={"kind": "backup", "backups": 1})
    assert result.throughput_samples_per_s == pytest.approx(8 * 3 / 10.5, rel=1e-3)
    assert result.scaling_efficiency == pytest.approx(3 / 3.1, rel=1e-3)


def test_bytes_are_per_sample_that_counted(tiny):
    """A ring of four sends 6 x S in all, for the three batches that count."""
    result = run(tiny, sync={"kind": "backup", "backups": 1})
    assert result.counted.mean() == 3 / 4
    assert result.bytes_per_sample == pytest.approx(6 * 2e6 / (3 * 8), rel=1e-5)


def test_a_gradient_is_dropped_as_often_as_its_worker_has_one(tiny):
    """The slow one drops one in 105 s, in which the others have thirty."""
    for aggregation in ("allreduce", "parameter-server"):
        result = run(tiny, aggregation=aggregation, sync={"kind": "backup", "backups": 1})
        assert result.staleness["dropped"] == pytest.approx(0.1 / 3.1, rel=1e-3)


def test_servers_get_bytes_as_often_as_each_worker_sends(tiny):
    """All four push and pull S, each for as many of its own batches as the others' count."""
    result = run(tiny, aggregation="parameter-server", sync={"kind": "backup", "backups": 1})
    assert result.bytes_per_sample == pytest.approx(3.1 * 2 * 2e6 / (3 * 8), rel=1e-3)


def test_a_collective_is_as_frequent_as_the_steps_of_the_fastest(tiny):
    """The late one takes part in each: a link carries its share every 10.5 s."""
    slow = {"nic": {"rate": "1 GB/s", "latency": 0}, "fabric": "single-switch", "nics_per_node": 1}
    result = simulate(tiny(4, cluster={"network": slow}, disturbance=ONE_SLOW, sync="asp"))
    in_a_step = 2 * 3 / 4 * 2e6 / 1e9
    busiest = result.to_json()["busiest_link"]["utilisation"]
    assert busiest == pytest.approx(in_a_step / 10.5, rel=0.01)
    assert result.bytes_per_sample == pytest.approx(6 * 2e6 / (3.1 * 8), rel=0.01)


def test_an_epoch_is_over_when_all_have_taken_its_steps(tiny):
    """Ten batches of each of four, at 3.1 in 10.5 s."""
    workload = {"dataset": {"samples": 10 * 4 * 8}}
    cluster = {"network": INSTANT}
    scenario = tiny(4, cluster=cluster, disturbance=ONE_SLOW, sync="asp", workload=workload)
    result = simulate(scenario)
    assert result.to_json()["epoch"]["time_s"] == pytest.approx(40 * 10.5 / 3.1, rel=1e-3)
    assert any("10 steps, 135.5 s: 320 samples" in note for note in run_notes(result))
