"""Gates: notified of events and queried, without any time."""

import numpy as np
import pytest

from dpsim.strategy.sync import (
    DROPPED,
    AspConfig,
    BackupConfig,
    BspConfig,
    GradientOutcome,
    LocalSgdConfig,
    QuorumGate,
    SmaConfig,
    SspConfig,
)

KINDS = {
    "bsp": BspConfig(kind="bsp"),
    "backup": BackupConfig(kind="backup"),
    "ssp": SspConfig(kind="ssp", staleness=1),
    "asp": AspConfig(kind="asp"),
    "local-sgd": LocalSgdConfig(kind="local-sgd"),
    "sma": SmaConfig(kind="sma"),
}


def free(gate, workers):
    """Who of those that have handed over may go on."""
    return [worker for worker in workers if gate.may_go_on(worker)]


def test_at_a_barrier_all_wait_for_the_last_and_go_on_with_one_version():
    gate = KINDS["bsp"].gate(3)
    assert [gate.hand_over(worker) for worker in (2, 0)] == [
        GradientOutcome.HELD,
        GradientOutcome.HELD,
    ]
    assert (free(gate, (2, 0)), gate.version) == ([], 0)
    assert gate.hand_over(1) is GradientOutcome.APPLIED
    assert free(gate, range(3)) == [0, 1, 2]
    assert [gate.go_on(worker) for worker in range(3)] == [1, 1, 1]


def test_backups_are_not_waited_for_and_start_from_the_newest_version():
    gate = KINDS["backup"].gate(3)
    outcomes = [gate.hand_over(worker) for worker in (0, 1, 2)]
    assert outcomes == [GradientOutcome.HELD, GradientOutcome.APPLIED, GradientOutcome.DROPPED]
    assert [gate.staleness(worker) for worker in range(3)] == [0, 0, DROPPED]
    assert [gate.go_on(worker) for worker in range(3)] == [1, 1, 1]


def test_without_dropping_a_late_gradient_is_part_of_the_next_update():
    gate = QuorumGate(3, 2)
    for worker in range(3):
        gate.hand_over(worker)
    assert (gate.update_of(2), gate.staleness(2), gate.may_go_on(2)) == (1, 1, False)
    gate.go_on(0)
    assert gate.hand_over(0) is GradientOutcome.APPLIED
    assert gate.may_go_on(2)


def test_clocks_under_ssp_are_at_most_so_far_apart_and_each_gradient_is_an_update():
    gate = KINDS["ssp"].gate(2)
    assert gate.hand_over(0) is GradientOutcome.APPLIED
    assert gate.go_on(0) == 1
    gate.hand_over(0)
    assert not gate.may_go_on(0)
    gate.hand_over(1)
    assert gate.may_go_on(0)
    assert (gate.version, gate.staleness(1)) == (3, 2)


def test_asynchronous_workers_always_go_on():
    gate = KINDS["asp"].gate(3)
    for _ in range(4):
        assert gate.hand_over(0) is GradientOutcome.APPLIED
        assert gate.may_go_on(0)
        gate.go_on(0)
    assert (gate.version, gate.hand_over(1), gate.staleness(1)) == (4, GradientOutcome.APPLIED, 4)


def test_nobody_waits_for_a_worker_that_has_left():
    gate = KINDS["ssp"].gate(2)
    for _ in range(2):
        gate.hand_over(0)
    assert not gate.may_go_on(0)
    gate.leave(1)
    assert gate.may_go_on(0)


def test_with_fewer_left_than_a_quorum_what_is_held_is_dropped_and_all_that_comes():
    gate = KINDS["backup"].gate(3)
    gate.hand_over(0)
    gate.leave(2)
    assert not gate.may_go_on(0), "there is a quorum still"
    gate.leave(1)
    assert (gate.may_go_on(0), gate.staleness(0)) == (True, DROPPED)
    gate.go_on(0)
    assert gate.hand_over(0) is GradientOutcome.DROPPED
    assert gate.version == 0


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", range(5))
def test_in_any_order_somebody_may_go_on_until_all_have_left(kind, seed):
    """No gate locks its workers up, and its turn never falls."""
    gate, random = KINDS[kind].gate(4), np.random.default_rng(seed)
    computing, waiting, turn = {0, 1, 2, 3}, set(), 0
    for _ in range(200):
        if computing and random.random() < 0.02:
            gone = computing.pop()
            gate.leave(gone)
        elif computing:
            worker = int(random.choice(sorted(computing)))
            gate.hand_over(worker)
            computing.remove(worker)
            waiting.add(worker)
        for worker in free(gate, sorted(waiting)):
            assert gate.go_on(worker) == gate.version
            waiting.remove(worker)
            computing.add(worker)
        assert gate.turn >= turn
        turn = gate.turn
        assert computing or not waiting


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_without_a_gate_of_its_own_has_a_barrier(kind):
    assert KINDS[kind].barrier == KINDS[kind].gate(3).barrier


def test_a_collective_begins_with_its_quorum_and_late_workers_take_part_from_then_on():
    there = np.array([4.0, 1.0, 3.0])
    assert QuorumGate(3, 2).quorum_ready_at(there) == 3
    assert QuorumGate(3, 2).takes_part(there).tolist() == [3, 1, 3]
    assert KINDS["bsp"].gate(3).takes_part(there).tolist() == [4, 1, 3]
