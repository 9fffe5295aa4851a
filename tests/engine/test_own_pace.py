"""Throughput, efficiency and traffic where workers need not keep pace with the slowest."""

import pytest

from dpsim import simulate

# Three workers take 10.5 s a step, the fourth ten times as long.
ONE_SLOW = {"slow": [{"workers": [3], "factor": 10}]}
INSTANT = {"nic": {"rate": "1 PB/s", "latency": 0}, "fabric": "single-switch", "nics_per_node": 1}


def run(tiny, **strategy):
    return simulate(tiny(4, cluster={"network": INSTANT}, disturbance=ONE_SLOW, **strategy))


@pytest.mark.parametrize(("aggregation", "step"), [("allreduce", 10.5), ("parameter-server", 10)])
def test_asynchronous_workers_count_at_their_own_pace(tiny, aggregation, step):
    """Without communication each takes samples as if alone: 8 / 10.5 s, and the slow one 8 / 105 s.

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


def test_backup_workers_are_no_more_efficient_than_workers_alone(tiny):
    """The slow one is not waited for, and its gradients do not count."""
    result = run(tiny, sync={"kind": "backup", "backups": 1})
    assert result.throughput_samples_per_s == pytest.approx(8 * 3 / 10.5, rel=1e-3)
    assert result.scaling_efficiency == pytest.approx(3 / 3.1, rel=1e-3)


def test_bytes_are_per_sample_that_counted(tiny):
    """A ring of four sends 6 x S in all, for the three batches that count."""
    result = run(tiny, sync={"kind": "backup", "backups": 1})
    assert result.steps.counted.mean() == 3 / 4
    assert result.bytes_per_sample == pytest.approx(6 * 2e6 / (3 * 8), rel=1e-5)


def test_links_are_used_as_often_as_fast_workers_take_steps(tiny):
    """A GPU's link carries its share of every step, of which there are 3.1 in 4 x 10.5 s."""
    slow = {"nic": {"rate": "1 GB/s", "latency": 0}, "fabric": "single-switch", "nics_per_node": 1}
    result = simulate(tiny(4, cluster={"network": slow}, disturbance=ONE_SLOW, sync="asp"))
    in_a_step = 2 * 3 / 4 * 2e6 / 1e9
    assert result.to_json()["busiest_link"]["utilisation"] == pytest.approx(
        in_a_step / (4 / 3.1 * 10.5), rel=0.01
    )
