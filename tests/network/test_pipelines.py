"""Pipelines, where rounds and flows treat them alike and where not."""

import numpy as np
import pytest
from small_networks import OneWire

from dpsim.collectives import Phase, Schedule, algorithm
from dpsim.collectives.schedule import fixed
from dpsim.network import FlowsModel, RoundsModel
from dpsim.topology import UniformSwitch


def push(*messages_of_phases):
    """Phases in which rank 0 sends some messages of 12 bytes to rank 1."""
    phases = []
    for messages in messages_of_phases:
        zeros = np.zeros(messages, dtype=np.int64)
        phases.append(Phase(zeros, fixed(zeros + 1), fixed(zeros), reduce=False))
    return Schedule("push", "by-hand", 2, 1, tuple(phases))


def finishes(schedule, starts=(0, 0)):
    starts = np.array(starts, float)
    return [
        kind(schedule, OneWire(2)).finish(starts, 12).finishes.tolist()
        for kind in (RoundsModel, FlowsModel)
    ]


def test_phases_follow_each_other():
    assert finishes(push(1, 1)) == [[24, 24], [24, 24]]


def test_messages_of_one_phase_share_links():
    assert finishes(push(2)) == [[24, 24], [24, 24]]


def test_a_phase_starts_when_both_ranks_do():
    assert finishes(push(2), starts=(5, 2)) == [[29, 29], [29, 29]]


@pytest.mark.parametrize("name", ["pipelined-tree", "double-binary-tree"])
@pytest.mark.parametrize("ranks", [*range(2, 24), 32, 63, 100, 255])
def test_the_lockstep_bound_of_a_pipelined_tree_is_at_most_two_messages_too_long(name, ranks):
    schedule = algorithm(name).schedule(ranks)
    messages = (
        RoundsModel(schedule, UniformSwitch(ranks, 1.0, 1.0))
        .finish(np.zeros(ranks), 0)
        .finishes.max()
    )
    assert schedule.rounds - 2 <= messages <= schedule.rounds
