"""Where rounds and flows differ, worked out by hand.

Links of 1 B/s without latency, messages of 12 bytes.
"""

import numpy as np
import pytest
from small_networks import OneWire

from dpsim.collectives import Phase, Schedule, algorithm
from dpsim.collectives.schedule import fixed
from dpsim.network import FlowsModel, RoundsModel
from dpsim.topology import UniformSwitch


def phase(*pairs):
    source, destination = (np.array(ends) for ends in zip(*pairs, strict=True))
    return Phase(source, fixed(destination), fixed(0 * source), reduce=False)


def push(*phases):
    return Schedule("push", "by-hand", 4, 1, phases)


def finishes(schedule, network, starts):
    return [
        kind(schedule, network).finish(np.array(starts, float), 12).finishes.tolist()
        for kind in (RoundsModel, FlowsModel)
    ]


def test_skew_on_a_shared_network_card_makes_rounds_too_slow():
    # GPUs 0 and 1 push to 2 and 3 through one card; GPU 1 is 6 s late. Rounds: half the rate each,
    # from first to last byte: 12 B / 0.5 B/s = 24 s after each one's start. Flows: only 0 for 6 s,
    # 6 B left at half rate: until 18. By then 1 has sent 6 B, and sends the rest faster: until 24.
    rounds, flows = finishes(push(phase((0, 2), (1, 3))), OneWire(4), [0, 6, 0, 0])
    assert rounds == [24, 30, 24, 30]
    assert flows == [18, 24, 18, 24]


def test_messages_of_different_rounds_on_one_wire_take_what_the_wire_takes():
    # 1 -> 3 belongs to the second round, but neither waits for the first: both messages start at 0.
    # Rounds: each pattern has the wire to itself, 12 s, but 24 B need 24 s. Flows: they share it.
    rounds, flows = finishes(push(phase((0, 2)), phase((1, 3))), OneWire(4), [0, 0, 0, 0])
    assert rounds == flows == [24, 24, 24, 24]


def test_without_skew_on_the_shared_card_they_agree():
    rounds, flows = finishes(push(phase((0, 2), (1, 3))), OneWire(4), [0, 0, 0, 0])
    assert rounds == flows == [24, 24, 24, 24]


def test_a_late_worker_of_a_master_costs_one_eighth_more_by_rounds():
    # Worker 2 is 6 s late. Rounds: half the master's link each: worker 1 until 24, worker 2 until
    # 30; the way back takes 24: 54. Flows: the master's link is never idle: 24 B until 24 (worker 1
    # is through at 18); the way back: 48.
    rounds, flows = finishes(
        algorithm("master-worker").schedule(3), UniformSwitch(3, 1.0, 0.0), [0, 0, 6]
    )
    assert rounds == [54, 54, 54]
    assert flows == [48, 48, 48]


@pytest.mark.parametrize("late", [0, 3, 100])
def test_a_late_rank_of_an_all_to_all_costs_the_same_in_both(late):
    # The late rank's own links are the bottleneck from its start on: (m-1) S = 36 s.
    rounds, flows = finishes(
        algorithm("all-to-all").schedule(4), UniformSwitch(4, 1.0, 0.0), [0, 0, late, 0]
    )
    assert rounds == flows == pytest.approx([late + 36] * 4)
