"""What every algorithm in the registry must do; a new member is tested by being registered."""

import numpy as np
import pytest

from dpsim.collectives import (
    ALGORITHMS,
    OPERATIONS,
    execute,
    traffic,
)
from dpsim.collectives import algorithm as named
from dpsim.collectives.all_reduces import butterfly, double_binary_tree, pipelined_tree

RANKS = range(1, 18)
SIZES = (0, 1, 5, 16, 37)
OPTIONS = [
    *(double_binary_tree.with_chunks(k) for k in (1, 3)),
    pipelined_tree.with_chunks(3),
    *(butterfly.with_degree(k) for k in (3, 4)),
]
ON_NODES = [member for member in [*ALGORITHMS, *OPTIONS] if member.depends_on_nodes]


@pytest.fixture(
    params=[*ALGORITHMS, *OPTIONS], ids=lambda a: f"{a.operation}-{a.name}-{a.schedule(2).chunks}"
)
def algorithm(request):
    return request.param


def test_it_is_registered_under_its_name(algorithm):
    if algorithm not in OPTIONS:
        assert named(algorithm.name, algorithm.operation) is algorithm


def is_right(algorithm, ranks, elements, per_node=1):
    schedule = algorithm.schedule(ranks, per_node)
    inputs = (
        np.random.default_rng(ranks)
        .integers(-1000, 1000, (ranks, elements * schedule.vectors))
        .astype(float)
    )
    expected = OPERATIONS[algorithm.operation].expected(inputs, schedule.chunking(elements))
    result = execute(schedule, inputs)
    np.testing.assert_array_equal(result[~np.isnan(expected)], expected[~np.isnan(expected)])


@pytest.mark.parametrize("ranks", RANKS)
def test_every_rank_ends_with_what_the_operation_promises(algorithm, ranks):
    for elements in SIZES:
        is_right(algorithm, ranks, elements)


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("algorithm", ON_NODES, ids=lambda a: a.name)
def test_however_ranks_stand_on_nodes(algorithm, ranks):
    for per_node in (some for some in range(2, ranks + 1) if ranks % some == 0):
        is_right(algorithm, ranks, 37, per_node)


def test_counted_traffic_is_that_of_the_rounds_laid_out(algorithm):
    for ranks in RANKS:
        schedule = algorithm.schedule(ranks)
        chunking = schedule.chunking(4 * 37, itemsize=4)
        sent, received = np.zeros(ranks), np.zeros(ranks)
        for current in schedule.each_round():
            nbytes = chunking.nbytes(current.chunk, current.count)
            np.add.at(sent, current.source, nbytes)
            np.add.at(received, current.destination, nbytes)
        counted = traffic(schedule, 4 * 37, itemsize=4)
        np.testing.assert_array_equal(counted.sent, sent)
        np.testing.assert_array_equal(counted.received, received)
        assert counted.total == sent.sum() == received.sum()


def test_no_rank_talks_to_itself_or_past_the_end(algorithm):
    for ranks in RANKS:
        schedule = algorithm.schedule(ranks)
        for current in schedule.each_round():
            assert (current.source != current.destination).all()
            for ends in (current.source, current.destination):
                assert ((ends >= 0) & (ends < ranks)).all()
            assert (current.chunk >= 0).all()
            assert (current.chunk + current.count <= schedule.chunks * schedule.vectors).all()


def test_one_rank_needs_no_round(algorithm):
    assert algorithm.schedule(1).rounds == 0


def test_it_says_where_it_comes_from(algorithm):
    assert algorithm.description
    assert algorithm.source
