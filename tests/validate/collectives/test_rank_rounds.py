"""What a rank is given of a schedule, carried out by ranks that are rows of an array."""

from collections import defaultdict

import numpy as np
import pytest

pytest.importorskip("torch")

from dpsim.collectives import ALGORITHMS, double_binary_tree, execute, pipelined_tree, ring
from validate.collectives.rank_rounds import lockstep, rank_rounds

pytestmark = pytest.mark.torch
OPTIONS = [ring.with_channels(3), double_binary_tree.with_chunks(3), pipelined_tree.with_chunks(3)]


@pytest.fixture(
    params=[*ALGORITHMS, *OPTIONS],
    ids=lambda each: f"{each.operation}-{each.name}-{each.schedule(2).chunks}",
)
def algorithm(request):
    return request.param


def rounds_of_all(schedule, elements, merged):
    """Rounds by number: rank to its rounds, one for each channel or one for all."""
    by_number = defaultdict(lambda: defaultdict(list))
    for rank in range(schedule.ranks):
        channels = rank_rounds(schedule, schedule.chunking(elements), rank)
        for each in (
            [*lockstep(channels)] if merged else [one for channel in channels for one in channel]
        ):
            by_number[each.number][rank].append(each)
    return [by_number[number] for number in sorted(by_number)]


def carry_out(by_rank, buffers):
    """One round of everybody.

    Messages of a pair arrive in order; straight receives land at once, others at the end.
    """
    channels = max(len(rounds) for rounds in by_rank.values())
    for channel in range(channels):
        mine = {rank: rounds[channel] for rank, rounds in by_rank.items() if channel < len(rounds)}
        wires = defaultdict(list)
        for rank, current in mine.items():
            for send in current.sends:
                wires[rank, send.peer].append(buffers[rank, send.start : send.end].copy())
        for rank, current in mine.items():
            scratch = np.full(current.scratch, np.nan)
            for receive in current.receives:
                message = wires[receive.peer, rank].pop(0)
                assert len(message) == receive.end - receive.start
                if receive.scratch < 0:
                    buffers[rank, receive.start : receive.end] = message
                else:
                    scratch[receive.scratch : receive.scratch + len(message)] = message
            for receive in current.receives:
                if receive.scratch >= 0:
                    held = scratch[receive.scratch : receive.scratch + receive.end - receive.start]
                    buffers[rank, receive.start : receive.end] *= receive.reduce
                    buffers[rank, receive.start : receive.end] += held
        assert not any(wires.values()), "every message is received"


@pytest.mark.parametrize("merged", [False, True], ids=["channels", "lockstep"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_all_ranks_together_do_what_the_schedule_says(algorithm, ranks, merged):
    schedule = algorithm.schedule(ranks)
    for elements in (0, 1, 37):
        inputs = (
            np.random.default_rng(ranks)
            .integers(-9, 9, (ranks, elements * schedule.vectors))
            .astype(float)
        )
        buffers = inputs.copy()
        for by_rank in rounds_of_all(schedule, elements, merged):
            carry_out(by_rank, buffers)
        np.testing.assert_array_equal(buffers, execute(schedule, inputs))


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_what_is_received_straight_touches_nothing_else_of_its_round(algorithm, ranks):
    schedule = algorithm.schedule(ranks)
    for rank in range(ranks):
        for rounds in rank_rounds(schedule, schedule.chunking(37), rank):
            for current in rounds:
                for at, receive in enumerate(current.receives):
                    others = [*current.sends, *current.receives[:at], *current.receives[at + 1 :]]
                    overlaps = any(
                        one.start < receive.end and receive.start < one.end for one in others
                    )
                    assert (receive.scratch < 0) == (
                        not receive.reduce and not overlaps and receive.end > receive.start
                    )


def test_a_ring_s_all_gather_needs_no_scratch_and_its_reduce_scatter_a_chunk():
    schedule = ring.RING.schedule(4)
    (rounds,) = rank_rounds(schedule, schedule.chunking(40), 0)
    assert [each.scratch for each in rounds] == [10, 10, 10, 0, 0, 0]


def test_rounds_without_transfers_of_the_rank_are_left_out():
    schedule = next(
        each for each in ALGORITHMS if each.name == "tree" and each.operation == "all-reduce"
    ).schedule(8)
    (rounds,) = rank_rounds(
        schedule, schedule.chunking(8), 1
    )  # a leaf: it sends once and receives once
    assert [(len(each.sends), len(each.receives)) for each in rounds] == [(1, 0), (0, 1)]
