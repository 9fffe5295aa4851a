"""Collectives in groups of ranks: what an algorithm does among some, all groups at once."""

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.collectives import (
    ALGORITHMS,
    OPERATIONS,
    Groups,
    RankLayout,
    execute,
    in_groups,
    traffic,
)
from dpsim.collectives import algorithm as named
from dpsim.network import MessageCosts, RoundsModel
from dpsim.topology import UniformSwitch

GROUPS = [(12, Groups(4)), (12, Groups(4, across=True)), (6, Groups(6)), (5, Groups(1))]
# A personalised all-to-all has as many vectors as ranks, which groups do not change.
SUMS = [member for member in ALGORITHMS if member.operation != "all-to-all"]


@pytest.mark.parametrize("algorithm", SUMS, ids=lambda each: f"{each.operation}-{each.name}")
@pytest.mark.parametrize(("ranks", "groups"), GROUPS, ids=str)
def test_every_group_ends_with_what_the_operation_promises_it(algorithm, ranks, groups):
    schedule = in_groups(algorithm, groups).schedule(ranks)
    inputs = np.random.default_rng(0).integers(-99, 99, (ranks, 37)).astype(float)
    result = execute(schedule, inputs)
    for members in groups.members(ranks):
        own = inputs[members]
        one = algorithm.schedule(len(members)).chunking(37)
        expected = OPERATIONS[algorithm.operation].expected(own, one)
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(result[members][known], expected[known])


@pytest.mark.parametrize("algorithm", SUMS, ids=lambda each: f"{each.operation}-{each.name}")
@pytest.mark.parametrize(("ranks", "groups"), GROUPS, ids=str)
def test_groups_take_as_long_as_one_of_them_and_send_as_much_each(algorithm, ranks, groups):
    costs = MessageCosts(overhead=1e-6, gamma=1e-10)
    members = groups.members(ranks)
    collectives, size = members.shape
    one, all_of_them = (
        RoundsModel(schedule, UniformSwitch(len(schedule_ranks), 1e9, 1e-5), costs)
        for schedule, schedule_ranks in (
            (algorithm.schedule(size), range(size)),
            (in_groups(algorithm, groups).schedule(ranks), range(ranks)),
        )
    )
    single = one.finish(np.zeros(size), 10_000).finishes
    combined = all_of_them.finish(np.zeros(ranks), 10_000).finishes
    np.testing.assert_allclose(combined[members], np.tile(single, (collectives, 1)), rtol=1e-12)
    sent = [traffic(each.schedule, 10_000).total for each in (one, all_of_them)]
    assert sent[1] == collectives * sent[0]


def test_a_group_waits_for_its_own_ranks_only():
    schedule = in_groups(named("ring"), Groups(2)).schedule(4)
    starts = np.array([0.0, 5.0, 0.0, 0.0])
    ends = RoundsModel(schedule, UniformSwitch(4, 1e9, 0.0)).finish(starts, 1000).finishes
    assert ends[2:].max() < 1
    assert ends[:2].min() > 5


def test_groups_stand_on_nodes_as_their_ranks_do():
    """Nodes of four: halves of one, two whole ones, replicas of each; or none that come out even."""
    nodes = RankLayout(16, 4)
    assert Groups(2).among(nodes) == RankLayout(2, 2)
    assert Groups(8).among(nodes) == RankLayout(8, 4)
    assert Groups(4, across=True).among(nodes) == RankLayout(4, 1)
    assert Groups(2, across=True).among(nodes) == RankLayout(8, 2)
    assert Groups(8, across=True).among(nodes) == RankLayout(2, 1)
    hierarchical = in_groups(named("hierarchical"), Groups(6))
    with pytest.raises(DpsimError, match="must have equally many GPUs on every node"):
        hierarchical.schedule(24, 4)


def test_groups_on_a_grid_have_a_part_of_it():
    """Halves of a row, a row, two rows; replicas of each; and a group that ends amid a row."""
    grid = RankLayout(64, 1, (16, 4))
    parts = [Groups(size).among(grid).grid for size in (2, 4, 8, 6)]
    assert parts == [(1, 2), (1, 4), (2, 4), None]
    across = [Groups(size, across=True).among(grid).grid for size in (2, 4, 8)]
    assert across == [(16, 2), (16, 1), (8, 1)]
