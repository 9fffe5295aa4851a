"""What a rank is given of a schedule, carried out by ranks that are rows of an array."""

from collections import Counter, defaultdict

import numpy as np
import pytest

pytest.importorskip("torch")

from dpsim.collectives import ALGORITHMS, execute
from dpsim.collectives.all_reduces import double_binary_tree, pipelined_tree, ring
from validate.collectives.executor import rank_rounds

pytestmark = pytest.mark.torch
OPTIONS = [double_binary_tree.with_chunks(3), pipelined_tree.with_chunks(3)]


@pytest.fixture(
    params=[*ALGORITHMS, *OPTIONS],
    ids=lambda each: f"{each.operation}-{each.name}-{each.schedule(2).chunks}",
)
def algorithm(request):
    return request.param


def carry_out(rounds_of, buffers):
    """All rounds of everybody: a rank sends its next one as soon as it has done its last.

    Messages of a pair arrive in order; straight receives land at once, others at the end.
    """
    wires = defaultdict(list)
    sent = set()
    left = [list(rounds) for rounds in rounds_of]
    while any(left):
        before = sum(map(len, left))
        for rank, rounds in enumerate(left):
            if not rounds:
                continue
            current = rounds[0]
            if (rank, len(rounds)) not in sent:
                sent.add((rank, len(rounds)))
                for send in current.sends:
                    wires[rank, send.peer].append(buffers[rank, send.start : send.end].copy())
            needed = Counter(receive.peer for receive in current.receives)
            if any(len(wires[peer, rank]) < count for peer, count in needed.items()):
                continue
            take(current, rank, wires, buffers)
            rounds.pop(0)
        assert sum(map(len, left)) < before, "some rank gets on"
    assert not any(wires.values()), "every message is received"


def take(current, rank, wires, buffers):
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


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
def test_all_ranks_execute_the_schedule(algorithm, ranks):
    schedule = algorithm.schedule(ranks)
    for elements in (0, 1, 37):
        inputs = (
            np.random.default_rng(ranks)
            .integers(-9, 9, (ranks, elements * schedule.vectors))
            .astype(float)
        )
        buffers = inputs.copy()
        chunking = schedule.chunking(elements)
        carry_out([rank_rounds(schedule, chunking, rank) for rank in range(ranks)], buffers)
        np.testing.assert_array_equal(buffers, execute(schedule, inputs))


@pytest.mark.parametrize("ranks", [2, 5, 8])
def test_what_is_received_straight_touches_nothing_else_of_its_round(algorithm, ranks):
    schedule = algorithm.schedule(ranks)
    for rank in range(ranks):
        for current in rank_rounds(schedule, schedule.chunking(37), rank):
            for at, receive in enumerate(current.receives):
                others = [*current.sends, *current.receives[:at], *current.receives[at + 1 :]]
                overlaps = any(
                    one.start < receive.end and receive.start < one.end for one in others
                )
                assert (receive.scratch < 0) == (
                    not receive.reduce and not overlaps and receive.end > receive.start
                )


def test_a_ring_s_all_gather_needs_no_scratch_and_its_reduce_scatter_a_chunk():
    schedule = ring.ALGORITHM.schedule(4)
    rounds = rank_rounds(schedule, schedule.chunking(40), 0)
    assert [each.scratch for each in rounds] == [10, 10, 10, 0, 0, 0]


def test_rounds_without_transfers_of_the_rank_are_left_out():
    schedule = next(
        each for each in ALGORITHMS if each.name == "tree" and each.operation == "all-reduce"
    ).schedule(8)
    rounds = rank_rounds(schedule, schedule.chunking(8), 1)  # a leaf sends and receives once
    assert [(len(each.sends), len(each.receives)) for each in rounds] == [(1, 0), (0, 1)]
