"""Copies of the state in a neighbour's memory, against the exact chain of their states."""

import math

import numpy as np
import pytest
from goodput_jobs import AT_ITS_OWN, DAY, crashes

from dpsim.disturbance.checkpoints import expected_with_copies
from dpsim.studies.goodput import goodput_study


def exact_share_with_copies(segments, work, copy, cost, restarts, rates):
    """The useful share by the chain of all states of a period, solved: a state for each copy, for
    the restart from each, and for a restart from storage.

    Rates and restarts: of what loses the copies, and of what does not.
    """
    (lost, kept), (restart, copy_restart) = rates, restarts
    rate, storage = lost + kept, 2 * (segments + 1)
    equations, spent = np.eye(storage + 1), np.zeros(storage + 1)

    def stay(state, seconds, after, if_kept):
        passes = math.exp(-rate * seconds)
        spent[state] += (1 - passes) / rate
        if after is not None:
            equations[state, after] -= passes
        equations[state, if_kept] -= (1 - passes) * kept / rate
        equations[state, storage] -= (1 - passes) * lost / rate

    for i in range(segments + 1):
        last = i == segments
        stay(2 * i, cost if last else work + copy, None if last else 2 * i + 2, 2 * i + 1)
        stay(2 * i + 1, copy_restart, 2 * i, 2 * i + 1)
    stay(storage, restart, 0, storage)
    return segments * work / np.linalg.solve(equations, spent)[0]


RACK = {"name": "power", "per": "rack", "nodes_per_rack": 5, "mtbf": "10000 s"}
NODE = {"name": "node", "per": "node", "mtbf": "4000 s"}


@AT_ITS_OWN
@pytest.mark.parametrize(
    ("copy", "runs"), [(0, 3), (5, 3), pytest.param(5, 40, marks=pytest.mark.wide)]
)
def test_copies_in_a_neighbours_memory_are_the_exact_chain(copy, runs):
    config = crashes(
        faults=[RACK, NODE],
        checkpoint_interval="600 s",
        checkpoint_cost="40 s",
        restart_time="30 s",
        neighbour={"interval": "60 s", "cost": f"{copy} s", "read_time": "10 s"},
    )
    study = goodput_study(config, 10, 1, 40 * DAY, runs=runs)
    exact = exact_share_with_copies(10, 60, copy, 40, (30, 40), (2 / 10000, 10 / 4000))
    assert study.expected.useful == pytest.approx(exact, rel=1e-9)
    assert study.shares["useful"] == pytest.approx(exact, abs=0.003)
    assert sum(study.shares.values()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("segment", "to_storage", "to_copy"),
    [
        (60, (0, 30), (1, 1e4)),  # each restart from a copy is struck
        (1e9, (0, 30), (1, 1)),  # each segment is
    ],
)
def test_a_job_that_never_gets_on_takes_for_ever(segment, to_storage, to_copy):
    assert expected_with_copies(10, segment, 40, to_storage, to_copy) == math.inf


@AT_ITS_OWN
def test_without_faults_that_leave_them_copies_only_cost():
    reported = {"faults": [RACK], "checkpoint_interval": "600 s", "checkpoint_cost": "40 s"}
    plain = goodput_study(crashes(**reported), 10, 1, 20 * DAY, runs=5)
    free = goodput_study(crashes(**reported, neighbour={"cost": "0 s"}), 10, 1, 20 * DAY, runs=5)
    dear = goodput_study(crashes(**reported, neighbour={"cost": "6 s"}), 10, 1, 20 * DAY, runs=5)
    assert free.shares == pytest.approx(plain.shares)
    assert free.expected.useful == pytest.approx(plain.expected.useful)
    assert dear.shares["useful"] < free.shares["useful"]


@AT_ITS_OWN
def test_a_neighbour_in_another_rack_outlives_the_rack():
    reported = {"faults": [RACK], "checkpoint_interval": "600 s", "checkpoint_cost": "40 s"}
    same, other = (
        goodput_study(crashes(**reported, neighbour={"same_rack": rack}), 10, 1, 20 * DAY, runs=5)
        for rack in (True, False)
    )
    assert other.shares["lost"] < 0.2 * same.shares["lost"]
