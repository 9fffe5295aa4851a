"""What every algorithm in the registry must do; a new member is tested by being registered."""

import numpy as np
import pytest

from dpsim.collectives import ALGORITHMS, OPERATIONS, execute, traffic

RANKS = range(1, 18)
SIZES = (0, 1, 5, 16, 37)


@pytest.fixture(params=ALGORITHMS, ids=lambda a: f"{a.operation}-{a.name}")
def algorithm(request):
    return request.param


@pytest.mark.parametrize("ranks", RANKS)
@pytest.mark.parametrize("elements", SIZES)
def test_every_rank_ends_with_what_the_operation_promises(algorithm, ranks, elements):
    schedule = algorithm.schedule(ranks)
    inputs = np.random.default_rng(ranks).integers(-1000, 1000, (ranks, elements * schedule.vectors)).astype(float)
    split = schedule.split(elements)
    expected = OPERATIONS[algorithm.operation].expected(inputs, split)
    result = execute(schedule, inputs)
    np.testing.assert_array_equal(result[~np.isnan(expected)], expected[~np.isnan(expected)])


@pytest.mark.parametrize("ranks", RANKS)
def test_counted_traffic_is_that_of_the_rounds_laid_out(algorithm, ranks):
    schedule = algorithm.schedule(ranks)
    split = schedule.split(4 * 37, itemsize=4)
    sent, received = np.zeros(ranks), np.zeros(ranks)
    for current in schedule.each_round():
        nbytes = split.nbytes(current.chunk, current.count)
        np.add.at(sent, current.source, nbytes)
        np.add.at(received, current.destination, nbytes)
    counted = traffic(schedule, split)
    np.testing.assert_array_equal(counted.sent, sent)
    np.testing.assert_array_equal(counted.received, received)
    assert counted.total == sent.sum() == received.sum()


@pytest.mark.parametrize("ranks", RANKS)
def test_no_rank_talks_to_itself_or_past_the_end(algorithm, ranks):
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
