"""Channels, windows and mixed rounds, by hand."""

import numpy as np
import pytest

from dpsim.collectives import Chunking, Cyclic, Phase, Schedule, Window, execute, traffic
from dpsim.collectives.schedule import fixed


def sent(phase):
    """(source, destination, chunk) of each transfer, round by round."""
    rounds = [phase.round(number) for number in range(phase.rounds)]
    return [
        list(zip(r.source.tolist(), r.destination.tolist(), r.chunk.tolist(), strict=True))
        for r in rounds
    ]


def chain(chunks, *, every=1):
    """0 -> 1 -> 2, chunk after chunk, as a pipeline."""
    window = Window(np.array([0, 1]), chunks, every)
    chunk = Cyclic(np.array([0, 0]), chunks, shift=1)
    return Phase(
        np.array([0, 1]), fixed([1, 2]), chunk, reduce=False, turns=window.turns, window=window
    )


def test_chunks_flow_through_a_chain_one_behind_the_other():
    assert sent(chain(3)) == [
        [(0, 1, 0)],
        [(0, 1, 1), (1, 2, 0)],
        [(0, 1, 2), (1, 2, 1)],
        [(1, 2, 2)],
    ]


def test_every_other_turn():
    assert sent(chain(2, every=2)) == [[(0, 1, 0)], [(1, 2, 0)], [(0, 1, 1)], [(1, 2, 1)]]


def test_a_pipeline_moves_each_chunk_once_over_each_link():
    schedule = Schedule("broadcast", "chain", 3, 3, (chain(3),))
    inputs = np.array([[1.0, 2.0, 3.0, 4.0], [0.0] * 4, [0.0] * 4])
    assert execute(schedule, inputs).tolist() == [[1, 2, 3, 4]] * 3
    moved = traffic(schedule, 4)
    assert moved.sent.tolist() == [4, 4, 0]
    assert moved.received.tolist() == [0, 4, 4]


def test_one_round_can_reduce_here_and_copy_there():
    both = Phase(np.array([0, 1]), fixed([1, 0]), fixed([0, 1]), reduce=np.array([True, False]))
    schedule = Schedule("swap", "by-hand", 2, 2, (both,))
    assert execute(schedule, np.array([[1.0, 10.0], [2.0, 20.0]])).tolist() == [[1, 20], [3, 20]]
    assert repr(both) == "<Phase copy and reduce: 2 transfers x 1 turns>"


@pytest.mark.parametrize("shift", [-1, 0, 1])
def test_the_longest_chunk_of_a_cycle_is_no_shorter_than_any_that_goes_its_way(shift):
    cyclic = Cyclic(np.arange(3), 3, shift=shift, base=np.array([0, 3, 6]))
    chunking = Chunking(elements=13, chunks=9)
    sizes = [chunking.nbytes(cyclic.at(turn), np.array(1)) for turn in range(3)]
    assert chunking.nbytes(cyclic.longest(), np.array(1)).tolist() == np.max(sizes, axis=0).tolist()
