import numpy as np
import pytest

from dpsim.collectives import algorithm, traffic
from dpsim.collectives.binary_trees import edges

RANKS = [2, 3, 4, 5, 7, 8, 13, 16, 33, 64, 100]


def test_the_tree_of_eight():
    #     0
    #     4
    #   2   6
    #  1 3 5 7
    tree = edges(8, 1)
    assert dict(zip(tree.child.tolist(), tree.parent.tolist(), strict=True)) == {
        1: 2,
        2: 4,
        3: 2,
        4: 0,
        5: 6,
        6: 4,
        7: 6,
    }
    assert tree.depth.tolist() == [3, 2, 3, 1, 3, 2, 3]


@pytest.mark.parametrize("ranks", RANKS)
def test_leaves_of_one_tree_are_inner_in_the_other(ranks):
    both = edges(ranks, 2)
    inner = [set(both.parent[both.tree == tree].tolist()) for tree in (0, 1)]
    assert inner[0] | inner[1] == set(range(ranks))
    assert (
        len(inner[0] & inner[1]) == ranks % 2
    )  # of an odd number of ranks, one is inner twice, with one child in each


@pytest.mark.parametrize("name", ["pipelined-tree", "double-binary-tree"])
@pytest.mark.parametrize("ranks", RANKS)
def test_no_rank_sends_or_receives_two_messages_in_a_round(name, ranks):
    for current in algorithm(name).schedule(ranks).each_round():
        assert len(np.unique(current.source)) == len(current.source)
        assert len(np.unique(current.destination)) == len(current.destination)


@pytest.mark.parametrize("ranks", [8, 16, 64])
def test_two_trees_move_what_a_ring_moves_and_one_tree_twice_as_much_through_its_inner_ranks(ranks):
    busiest = {}
    for name in ("pipelined-tree", "double-binary-tree"):
        schedule = algorithm(name).schedule(ranks)
        moved = traffic(schedule, 3200)
        assert moved.total == 2 * (ranks - 1) * 3200
        busiest[name] = moved.busiest
    assert busiest == {"pipelined-tree": 3 * 3200, "double-binary-tree": 2 * 3200}


@pytest.mark.parametrize(("ranks", "levels"), [(2, 1), (8, 3), (32, 5), (128, 7)])
def test_rounds_of_a_power_of_two(ranks, levels):
    chunks = 16
    expected = 2 * (2 * chunks + 2 * levels - 3) if ranks > 2 else 2 * chunks
    assert algorithm("pipelined-tree").schedule(ranks).rounds == expected
    assert algorithm("double-binary-tree").schedule(ranks).rounds == expected
