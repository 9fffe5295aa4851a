"""How far apart workers and versions can be.

Stale-synchronous workers for any jitter, staleness and number.
"""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim import simulate
from dpsim.strategy.sync import DROPPED

SERVERS = "parameter-server"
CASES = {
    "workers": st.integers(2, 5),
    "staleness": st.integers(0, 4),
    "cv": st.sampled_from([0.0, 0.2, 1.0, 2.5]),
    "slow": st.sampled_from([1.0, 2.0, 20.0]),
    "latency": st.sampled_from([0.0, 1.0, 20.0]),
    "overlap": st.sampled_from(["sequential", "wfbp"]),
    "seed": st.integers(0, 1000),
}


def run(tiny, aggregation, sync, workers, cv, slow, latency, overlap, seed, steps=8):
    disturbance = {
        "jitter": {"kind": "gamma", "cv": cv},
        "slow": [{"workers": [0], "factor": slow}],
    }
    settled = {"steps": steps, "seed": seed}
    return simulate(
        tiny(
            workers,
            latency,
            aggregation=aggregation,
            sync=sync,
            overlap=overlap,
            run=settled,
            disturbance=disturbance,
        )
    ).steps


@pytest.mark.parametrize("aggregation", [SERVERS, "allreduce"])
@given(**CASES)
def test_clocks_are_at_most_s_apart_and_versions_at_most_m_less_1_times_2_s_and_1(
    tiny, aggregation, staleness, workers, **others
):
    steps = run(tiny, aggregation, {"kind": "ssp", "staleness": staleness}, workers, **others)
    assert 0 <= steps.clock_gap.min() <= steps.clock_gap.max() <= staleness
    assert 0 <= steps.versions.min() <= steps.versions.max() <= (workers - 1) * (2 * staleness + 1)


@pytest.mark.parametrize("aggregation", [SERVERS, "allreduce"])
@pytest.mark.parametrize("staleness", [0, 1, 3])
def test_the_bound_of_clocks_is_reached(tiny, aggregation, staleness):
    """One worker of three is five times slower: the others run ahead as far as they may, and
    wait.
    """
    slow = {"slow": [{"workers": [0], "factor": 5}]}
    sync = {"kind": "ssp", "staleness": staleness}
    steps = simulate(
        tiny(3, aggregation=aggregation, sync=sync, run={"steps": 12}, disturbance=slow)
    ).steps
    assert steps.clock_gap.max() == staleness
    assert steps.clock_gap[:, 0].max() == 0
    assert steps.straggler_wait[-1, 1] > 10
    assert steps.straggler_wait[:, 0].max() < 1


def test_more_versions_than_clocks_can_be_apart(tiny):
    """Two stalenesses.

    With s = 1 and four workers 3 updates come in between while clocks differ by 0.
    """
    steps = simulate(
        tiny(4, aggregation=SERVERS, sync={"kind": "ssp", "staleness": 1}, run={"steps": 6})
    ).steps
    assert steps.clock_gap.max() <= 1
    assert steps.versions.max() == 3


@given(**CASES)
def test_a_dropped_gradient_is_never_an_update(tiny, staleness, workers, **others):
    """At parameter servers with b backups, each update is m - b gradients and every other one is
    dropped; none is stale.
    """
    backups = min(staleness, workers - 1)
    steps = run(tiny, SERVERS, {"kind": "backup", "backups": backups}, workers, **others)
    assert set(np.unique(steps.versions)) <= {0, DROPPED}
    if not backups:
        assert (steps.versions != DROPPED).all()


@given(**CASES)
def test_asynchronous_workers_never_wait_for_one_another(tiny, staleness, workers, **others):
    steps = run(tiny, SERVERS, "asp", workers, **others)
    assert not steps.straggler_wait.any()


@given(**{**CASES, "graph": st.sampled_from(["ring", "exponential", "random-pairs", "torus"])})
def test_pairs_that_average_never_block_one_another_for_good(
    tiny, staleness, graph, workers, **others
):
    steps = run(tiny, {"kind": "gossip", "graph": graph}, "asp", workers, **others)
    assert not steps.straggler_wait.any()
    assert (steps.step > 0).all()


def test_a_worker_that_is_always_late_is_always_dropped(tiny):
    """Also when it is so slow that the others have done all their rounds long before."""
    slow = {"slow": [{"workers": [3], "factor": 30}]}
    steps = simulate(
        tiny(4, aggregation=SERVERS, sync="backup", run={"steps": 4}, disturbance=slow)
    ).steps
    assert (steps.versions[:, 3] == DROPPED).all()
    assert (steps.versions[:, :3] != DROPPED).all()


def test_backups_save_the_wait_for_a_slow_worker(tiny):
    slow = {"slow": [{"workers": [3], "factor": 3}]}
    for aggregation in (SERVERS, "allreduce"):
        backup, bsp = (
            simulate(
                tiny(4, aggregation=aggregation, sync=sync, run={"steps": 5}, disturbance=slow)
            )
            for sync in ("backup", "bsp")
        )
        assert backup.steps.step[:, 0].mean() < 0.6 * bsp.steps.step[:, 0].mean()
        assert (backup.counted == [True, True, True, False]).all()
        # The slow worker makes fewer gradients than the others in the same time.
        paces = 1 / backup.steps.step.mean(axis=0)
        assert backup.staleness["dropped"] == pytest.approx(paces[3] / paces.sum())
        assert 0.09 < backup.staleness["dropped"] < 0.13  # one of ten
