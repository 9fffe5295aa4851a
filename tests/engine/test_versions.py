"""How many updates lie between the reading of parameters and the applying of a gradient, where
workers act in step.
"""

import numpy as np
import pytest

from dpsim import simulate
from dpsim.strategy.sync import DROPPED, BarrierGate, QuorumGate

BEGIN_AND_END = [(1.0, 2.0), (3.0, 4.0), (5.0, 6.0)]
DONE = np.array([[1.0, 1.0], [3.0, 3.0], [5.0, 5.0]])


def test_a_worker_that_has_its_update_before_the_others_has_read_it():
    starts = np.array(
        [[0.0, 0.0], [1.5, 2.0], [3.5, 4.0]]
    )  # worker 0 has its pull half a second before the last one has
    assert not BarrierGate(2).versions_behind(starts, DONE, BEGIN_AND_END).any()


def test_with_a_lag_what_has_not_arrived_has_not_been_read():
    starts = np.array([[0.0, 0.0], [1.5, 2.0], [3.5, 4.0]])
    assert BarrierGate(2, lag=1).versions_behind(starts, DONE, BEGIN_AND_END).tolist() == [
        [0, 0],
        [1, 0],
        [1, 0],
    ]


def test_a_late_gradient_counts_in_a_later_round_or_never():
    starts, late = np.zeros((1, 2)), np.array([[1.0, 3.0]])
    assert QuorumGate(2, 1).versions_behind(starts, late, BEGIN_AND_END[:2]).tolist() == [[0, 1]]
    assert QuorumGate(2, 1, drops=True).versions_behind(
        starts, late, BEGIN_AND_END[:2]
    ).tolist() == [[0, DROPPED]]


def test_who_has_a_model_of_its_own_may_be_ahead_and_shares_no_versions():
    starts, done = np.array([[0.0, 0.0], [0.5, 2.0]]), np.array([[0.4, 1.0], [3.0, 3.0]])
    gaps, behind = BarrierGate(2).stalenesses(starts, done, [])
    assert gaps.tolist() == [[0, 0], [1, 0]]  # its second step begins before the other's first ends
    assert behind.tolist() == [[0, 0], [0, 0]]


@pytest.mark.pairwise(strength=1)
@pytest.mark.parametrize("overlap", ["sequential", "wfbp", "buckets", "priority"])
@pytest.mark.parametrize("aggregation", ["allreduce", "parameter-server", "host", "sharded"])
def test_in_bulk_synchronous_steps_nothing_is_stale(scenario, aggregation, overlap):
    strategy = {"aggregation": {"kind": aggregation}, "overlap": {"kind": overlap}}
    result = simulate(
        scenario(strategy=strategy, disturbance={"jitter": {"kind": "lognormal", "sigma": 0.2}})
    )
    assert result.staleness["versions"]["max"] == 0
    assert result.staleness["dropped"] == 0


def test_late_gradients_are_the_same_wherever_the_clock_begins():
    """Real ranks' clocks do not begin at 0: two rounds a second apart, then one 5 s behind them."""
    starts, late = np.array([[0.0, 0.0], [1.0, 1.0]]), np.array([[1.0, 1.0], [2.0, 7.0]])
    rounds = [(1.0, 1.0), (2.0, 2.0)]
    for gate, behind in ((QuorumGate(2, 1), 6), (QuorumGate(2, 1, drops=True), DROPPED)):
        for since in (0.0, 1e6):
            at = [(begin + since, end + since) for begin, end in rounds]
            found = gate.versions_behind(starts + since, late + since, at)
            assert found.tolist() == [[0, 0], [0, behind]]
