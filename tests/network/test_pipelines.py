"""Channels and pipelines, where rounds and flows treat them alike and where not."""

import numpy as np
import pytest
from small_networks import OneWire

from dpsim.collectives import Phase, Schedule, algorithm
from dpsim.collectives.schedule import fixed
from dpsim.network import FlowsModel, RoundsModel
from dpsim.topology import UniformSwitch


def push(*channels_of_phases):
    """Phases in which rank 0 sends 12 bytes to rank 1 in each of some channels."""
    phases = []
    for channels in channels_of_phases:
        zeros = np.zeros(len(channels), dtype=np.int64)
        phases.append(
            Phase(zeros, fixed(zeros + 1), fixed(zeros), reduce=False, channel=np.array(channels))
        )
    return Schedule("push", "by-hand", 2, 1, tuple(phases))


def finishes(schedule, starts=(0, 0)):
    starts = np.array(starts, float)
    return [
        kind(schedule, OneWire(2)).finish(starts, 12).finishes.tolist()
        for kind in (RoundsModel, FlowsModel)
    ]


def test_what_one_channel_does_in_turn_two_do_at_once():
    # One channel: 12 s, then 12 s. Two: rounds give each pattern the wire to itself, but no wire
    # carries more than its rate; under flows the two share it.
    assert finishes(push([0], [0])) == [[24, 24], [24, 24]]
    assert finishes(push([0], [1])) == [[24, 24], [24, 24]]


def test_channels_of_one_phase_share_links():
    assert finishes(push([0, 1])) == [[24, 24], [24, 24]]


def test_a_rank_is_done_when_its_last_channel_is():
    assert finishes(push([0, 1], [1])) == [[36, 36], [36, 36]]


def test_every_channel_starts_when_its_rank_does():
    assert finishes(push([0, 1]), starts=(5, 2)) == [[29, 29], [29, 29]]


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
