"""How long every algorithm in the registry takes on the uniform switch; a new member is tested by
being registered.
"""

import numpy as np
import pytest

from dpsim.collectives import (
    ALGORITHMS,
    Costs,
    RankLayout,
    traffic,
)
from dpsim.collectives.all_reduces import butterfly, double_binary_tree, pipelined_tree
from dpsim.network import ClosedFormModel, FlowsModel, MessageCosts, RoundsModel
from dpsim.topology import UniformSwitch

RATE, LATENCY = 50e9, 500e-9
SIZES = [
    4 * elements for elements in (0, 1, 37, 1440, 12345)
]  # 1440: what the chunks of 8 ranks divide
# One, powers of two and their neighbours, even and odd, primes and products.
RANKS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16)
FREE = MessageCosts()
COSTLY = MessageCosts(overhead=1e-6, gamma=2e-11)

OPTIONS = [
    *(double_binary_tree.with_chunks(k) for k in (1, 3)),
    pipelined_tree.with_chunks(3),
    *(butterfly.with_degree(k) for k in (3, 4)),
]
MEMBERS = [*ALGORITHMS, *OPTIONS]

both_costs = pytest.mark.parametrize("costs", [FREE, COSTLY], ids=["free", "costly"])


@pytest.fixture(params=MEMBERS, ids=lambda a: f"{a.operation}-{a.name}-{a.schedule(2).chunks}")
def algorithm(request):
    return request.param


def switch(ranks):
    return UniformSwitch(ranks, RATE, LATENCY)


def times(model, ranks, start=0.0, sizes=SIZES):
    """Seconds until the last rank has finished, for each of ``sizes``."""
    return np.array(
        [model.finish(np.full(ranks, start), nbytes).finishes.max() - start for nbytes in sizes]
    )


def stated(algorithm, layout, costs):
    """The algorithm's own seconds for each of SIZES, and whether it says that they are exact."""
    schedule = algorithm.schedule(layout.ranks, layout.per_node, layout.grid)
    costs = Costs(LATENCY, 1 / RATE, costs.gamma, costs.overhead)
    chunkings = [schedule.chunking(nbytes, 4) for nbytes in SIZES]
    seconds = [algorithm.exact_time(layout, one, costs) for one in chunkings]
    return np.array(seconds), np.array(
        [algorithm.exact_for(layout, one, costs) for one in chunkings]
    )


def layouts(algorithm, ranks):
    """Every way in which ``ranks`` fill equal nodes, or a grid, for those algorithms that mind."""
    nodes = range(1, ranks + 1) if algorithm.depends_on_nodes else [1]
    sides = [side for side in nodes if ranks % side == 0]
    grids = [(ranks // side, side) for side in sides] if algorithm.depends_on_nodes else []
    return [
        *(RankLayout(ranks, per_node) for per_node in sides),
        *(RankLayout(ranks, 1, grid) for grid in grids),
    ]


@pytest.mark.pairwise
@both_costs
@pytest.mark.parametrize("collapse", [True, False])
def test_rounds_take_the_exact_time_and_where_that_is_a_bound_no_more(algorithm, costs, collapse):
    for layout in (layout for ranks in RANKS for layout in layouts(algorithm, ranks)):
        schedule = algorithm.schedule(layout.ranks, layout.per_node, layout.grid)
        found = times(
            RoundsModel(schedule, switch(layout.ranks), costs, collapse=collapse), layout.ranks
        )
        expected, exact = stated(algorithm, layout, costs)
        where = f"exact_time, where exact_for says that it is exact, on {layout}"
        np.testing.assert_allclose(found[exact], expected[exact], rtol=1e-12, err_msg=where)
        assert (found <= expected * (1 + 1e-12)).all(), f"exact_time is no bound on {layout}"


def test_every_algorithm_says_for_which_sizes_it_is_exact_and_there_are_some(algorithm):
    _, exact = stated(algorithm, RankLayout(8), FREE)
    assert exact[SIZES.index(0)]
    assert exact[SIZES.index(4 * 1440)]


@pytest.mark.pairwise(strength=1)
@both_costs
def test_flows_take_the_time_of_rounds(algorithm, costs):
    for ranks in (2, 3, 5, 8, 13):
        layout = layouts(algorithm, ranks)[len(layouts(algorithm, ranks)) // 2]
        schedule = algorithm.schedule(ranks, layout.per_node, layout.grid)
        sizes = SIZES[2:]
        rounds, flows = (kind(schedule, switch(ranks), costs) for kind in (RoundsModel, FlowsModel))
        np.testing.assert_allclose(
            times(flows, ranks, sizes=sizes),
            times(rounds, ranks, sizes=sizes),
            rtol=1e-9,
            err_msg=str(layout),
        )


def test_the_closed_form_is_the_exact_time(algorithm):
    expected, _ = stated(algorithm, RankLayout(8), COSTLY)
    found = times(ClosedFormModel(algorithm, switch(8), COSTLY), 8)
    np.testing.assert_array_equal(found, expected)


def test_links_carry_the_same_bytes_in_every_model(algorithm):
    for ranks in (1, 2, 5, 8, 11):
        schedule, starts, nbytes = algorithm.schedule(ranks), np.zeros(ranks), 4 * 1003
        rounds = RoundsModel(schedule, switch(ranks)).finish(starts, nbytes).loads
        flows = FlowsModel(schedule, switch(ranks)).finish(starts, nbytes).loads
        exact = ClosedFormModel(algorithm, switch(ranks)).finish(starts, nbytes).loads
        np.testing.assert_array_equal(rounds, exact, err_msg=f"{ranks} ranks")
        np.testing.assert_array_equal(flows, exact, err_msg=f"{ranks} ranks")


def test_no_time_is_below_what_the_busiest_link_needs_or_one_latency_for_each_round_of_the_busiest_rank(
    algorithm,
):
    for ranks in (2, 3, 6, 8, 13, 16):
        schedule = algorithm.schedule(ranks)
        moved = [traffic(schedule, nbytes, 4) for nbytes in SIZES]
        busiest = np.array([max(found.sent.max(), found.received.max()) for found in moved])
        busy = [np.union1d(each.source, each.destination) for each in schedule.each_round()]
        rounds = np.bincount(np.concatenate(busy)).max()
        bound = np.maximum(busiest / RATE, rounds * LATENCY)
        taken = times(RoundsModel(schedule, switch(ranks)), ranks)
        assert (taken >= bound * (1 - 1e-12)).all(), ranks


@pytest.mark.parametrize("model", [RoundsModel, FlowsModel])
def test_one_rank_is_done_when_it_starts(algorithm, model):
    assert model(algorithm.schedule(1), switch(1), COSTLY).finish(
        np.array([3.0]), 1000
    ).finishes.tolist() == [3.0]


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
