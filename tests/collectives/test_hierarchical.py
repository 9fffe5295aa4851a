from math import prod

import numpy as np
import pytest

from dpsim.base.errors import DpsimError
from dpsim.collectives import RankLayout, algorithm
from dpsim.collectives.all_reduces.torus_2d import row

HIERARCHICAL = algorithm("hierarchical")


def test_messages_between_nodes_stay_on_rails_and_carry_a_share_of_the_vector():
    schedule = HIERARCHICAL.schedule(12, per_node=4)
    chunking = schedule.chunking(1200)
    outside = np.zeros(12)
    for current in schedule.each_round():
        apart = current.source // 4 != current.destination // 4
        assert (current.source[apart] % 4 == current.destination[apart] % 4).all()
        np.add.at(
            outside, current.source[apart], chunking.nbytes(current.chunk, current.count)[apart]
        )
    assert (
        outside.tolist() == [2 * 2 / 3 * 300] * 12
    )  # a ring of 3 nodes on a quarter of the vector
    assert schedule.rounds == 2 * (4 - 1) + 2 * (3 - 1)


def test_one_node_is_a_ring_and_so_is_one_rank_a_node():
    ring = algorithm("ring").schedule(6)
    for per_node in (1, 6):
        schedule = HIERARCHICAL.schedule(6, per_node)
        for ours, theirs in zip(schedule.each_round(), ring.each_round(), strict=True):
            assert (ours.destination == theirs.destination).all()
            # A single ring numbers its chunks as textbooks do: each rank begins with its own.
            assert ((ours.chunk + 1) % 6 == theirs.chunk).all()


@pytest.mark.parametrize(
    ("ranks", "per_node", "message"),
    [
        (10, 4, "hierarchical must have ranks that fill whole nodes of 4, but got 10 ranks"),
        (
            10,
            None,
            "hierarchical must have equally many GPUs on every node, but got a mixed cluster",
        ),
    ],
)
def test_nodes_must_be_equal(ranks, per_node, message):
    with pytest.raises(DpsimError, match=message):
        HIERARCHICAL.schedule(ranks, per_node)


@pytest.mark.parametrize(
    ("ranks", "per_node", "expected"),
    [
        (16, 1, 4),
        (12, 1, 4),
        (7, 1, 7),
        (1, 1, 1),
        (8, 8, 4),
        (32, 8, 8),
        (12, None, 4),
        (10, 4, 5),
    ],
)
def test_a_row_of_the_torus_is_a_node_or_a_side_of_the_grid_nearest_to_a_square(
    ranks, per_node, expected
):
    assert row(RankLayout(ranks, per_node)) == expected


@pytest.mark.parametrize(
    ("grid", "expected"),
    [((16, 4), 4), ((4, 16), 16), ((64,), 64), ((16, 1, 4, 1), 4), ((4, 2, 3), 3), ((1,), 1)],
)
def test_a_row_of_the_torus_runs_along_the_last_dimension_of_the_fabric(grid, expected):
    assert row(RankLayout(prod(grid), 1, grid)) == expected


def test_neighbours_of_the_torus_are_neighbours_in_a_grid_of_4_by_2():
    """Pairs of a row, then rings of four along columns, then pairs again."""
    schedule = algorithm("torus-2d").schedule(8, 1, (4, 2))
    assert [current.destination[0] for current in schedule.each_round()] == [1, *[2] * 6, 1]
