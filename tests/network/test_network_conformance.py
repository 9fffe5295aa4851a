"""How long every algorithm in the registry takes on the uniform switch; a new member is tested by being registered."""

import numpy as np
import pytest

from dpsim.collectives import ALGORITHMS, traffic
from dpsim.network import ClosedFormModel, FlowsModel, MessageCosts, RoundsModel
from dpsim.topology import UniformSwitch

RATE, LATENCY = 50e9, 500e-9
SIZES = [4 * elements for elements in (0, 1, 5, 37, 1000, 12345)]
FREE = MessageCosts()
COSTLY = MessageCosts(overhead=1e-6, gamma=2e-11)

both_costs = pytest.mark.parametrize("costs", [FREE, COSTLY], ids=["free", "costly"])
all_ranks = pytest.mark.parametrize("ranks", range(1, 18))


@pytest.fixture(params=ALGORITHMS, ids=lambda a: f"{a.operation}-{a.name}")
def algorithm(request):
    return request.param


def switch(ranks):
    return UniformSwitch(ranks, RATE, LATENCY)


def times(model, ranks, start=0.0):
    """Seconds until the last rank has finished, for each of SIZES."""
    return [model.finish(np.full(ranks, start), nbytes).finishes.max() - start for nbytes in SIZES]


@both_costs
@all_ranks
@pytest.mark.parametrize("collapse", [True, False])
def test_rounds_take_the_exact_time(algorithm, ranks, costs, collapse):
    rounds = RoundsModel(algorithm.schedule(ranks), switch(ranks), costs, collapse=collapse)
    exact = ClosedFormModel(algorithm, switch(ranks), costs)
    np.testing.assert_allclose(times(rounds, ranks), times(exact, ranks), rtol=1e-12)


@both_costs
@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 12, 17])
def test_flows_take_the_exact_time(algorithm, ranks, costs):
    flows = FlowsModel(algorithm.schedule(ranks), switch(ranks), costs)
    exact = ClosedFormModel(algorithm, switch(ranks), costs)
    np.testing.assert_allclose(times(flows, ranks), times(exact, ranks), rtol=1e-9)


@pytest.mark.parametrize("ranks", [1, 2, 5, 8, 11])
def test_links_carry_the_same_bytes_in_every_model(algorithm, ranks):
    schedule, starts, nbytes = algorithm.schedule(ranks), np.zeros(ranks), 4 * 1003
    rounds = RoundsModel(schedule, switch(ranks)).finish(starts, nbytes).loads
    flows = FlowsModel(schedule, switch(ranks)).finish(starts, nbytes).loads
    exact = ClosedFormModel(algorithm, switch(ranks)).finish(starts, nbytes).loads
    np.testing.assert_array_equal(rounds, exact)
    np.testing.assert_array_equal(flows, exact)


@all_ranks
def test_no_time_is_below_what_the_busiest_link_needs_or_one_latency_a_round(algorithm, ranks):
    schedule = algorithm.schedule(ranks)
    moved = [traffic(schedule, schedule.split(nbytes, 4)) for nbytes in SIZES]
    busiest = np.array([max(found.sent.max(), found.received.max()) for found in moved])
    bound = np.maximum(busiest / RATE, schedule.rounds * LATENCY)
    assert (times(RoundsModel(schedule, switch(ranks)), ranks) >= bound * (1 - 1e-12)).all()


@pytest.mark.parametrize("model", [RoundsModel, FlowsModel])
def test_one_rank_is_done_when_it_starts(algorithm, model):
    assert model(algorithm.schedule(1), switch(1), COSTLY).finish(np.array([3.0]), 1000).finishes.tolist() == [3.0]


@pytest.mark.parametrize("model", [RoundsModel, FlowsModel])
def test_asking_twice_gets_the_same_answer(algorithm, model):
    timed = model(algorithm.schedule(5), switch(5), COSTLY)
    starts = np.array([3.0, 1.0, 4.0, 1.5, 9.0]) * 1e-6
    first = timed.finish(starts, 1000)
    timed.finish(starts, 77)
    second = timed.finish(starts, 1000)
    np.testing.assert_array_equal(first.finishes, second.finishes)
    np.testing.assert_array_equal(first.loads, second.loads)
    assert starts.tolist() == (np.array([3.0, 1.0, 4.0, 1.5, 9.0]) * 1e-6).tolist()
