"""Rounds and bytes of the all-reduce algorithms, as in the table of DESIGN.md, section 6, for a
size that 1 .. 16 divide.
"""

from math import ceil, log2

import pytest

from dpsim.collectives import algorithm, traffic

S = 720720


def power_of_two(m):
    return 2 ** int(log2(m))


def folded(m):
    """1 where surplus ranks past a power of two fold in before and out after, else 0."""
    return int(m != power_of_two(m))


def columns(m):
    """The shorter side of the grid nearest to a square."""
    return max(side for side in range(1, m + 1) if m % side == 0 and side * side <= m)


ROUNDS = {
    "all-to-all": lambda m: 1,
    "master-worker": lambda m: 2,
    "tree": lambda m: 2 * ceil(log2(m)),
    "round-robin": lambda m: 2 * (m - 1),
    "butterfly": lambda m: int(log2(power_of_two(m))) + 2 * folded(m),
    "halving-doubling": lambda m: 2 * int(log2(power_of_two(m))) + 2 * folded(m),
    "ring": lambda m: 2 * (m - 1),
    "hierarchical": lambda m: 2 * (m - 1),  # every rank on a node of its own
    "torus-2d": lambda m: 2 * (columns(m) + m // columns(m) - 2),
    "swing": lambda m: 2 * int(log2(power_of_two(m))) + 2 * folded(m),
}
BUSIEST = {
    "all-to-all": lambda m: (m - 1) * S,
    "master-worker": lambda m: (m - 1) * S,
    "tree": lambda m: ceil(log2(m)) * S,
    "round-robin": lambda m: 2 * (m - 1) / m * S,
    "butterfly": lambda m: (log2(power_of_two(m)) + folded(m)) * S,
    "halving-doubling": lambda m: (2 * (power_of_two(m) - 1) / power_of_two(m) + folded(m)) * S,
    "ring": lambda m: 2 * (m - 1) / m * S,
    "hierarchical": lambda m: 2 * (m - 1) / m * S,
    "torus-2d": lambda m: 2 * (m - 1) / m * S,
    "swing": lambda m: (2 * (power_of_two(m) - 1) / power_of_two(m) + folded(m)) * S,
}
TOTAL = {
    "all-to-all": lambda m: m * (m - 1) * S,
    "master-worker": lambda m: 2 * (m - 1) * S,
    "tree": lambda m: 2 * (m - 1) * S,
    "round-robin": lambda m: 2 * (m - 1) * S,
    "butterfly": lambda m: (
        (power_of_two(m) * log2(power_of_two(m)) + 2 * (m - power_of_two(m))) * S
    ),
    "halving-doubling": lambda m: 2 * (m - 1) * S,
    "ring": lambda m: 2 * (m - 1) * S,
    "hierarchical": lambda m: 2 * (m - 1) * S,
    "torus-2d": lambda m: 2 * (m - 1) * S,
    "swing": lambda m: 2 * (m - 1) * S,
}


@pytest.mark.parametrize("name", ROUNDS)
@pytest.mark.parametrize("ranks", range(2, 17))
def test_rounds_and_bytes_are_those_of_the_table(name, ranks):
    schedule = algorithm(name).schedule(ranks)
    moved = traffic(schedule, S)
    assert schedule.rounds == ROUNDS[name](ranks)
    assert moved.busiest == pytest.approx(BUSIEST[name](ranks), rel=1e-15)
    assert moved.total == pytest.approx(TOTAL[name](ranks), rel=1e-15)


@pytest.mark.parametrize("ranks", [3, 7, 16])
def test_where_elements_do_not_divide_a_ring_sends_at_most_its_largest_chunk_in_each_round_and_no_byte_more_in_all(
    ranks,
):
    schedule = algorithm("ring").schedule(ranks)
    chunking = schedule.chunking(4 * 1001, itemsize=4)
    moved = traffic(schedule, 4 * 1001, itemsize=4)
    assert moved.busiest <= 2 * (ranks - 1) * chunking.largest
    assert moved.total == 2 * (ranks - 1) * 4 * 1001


def test_the_master_sends_and_receives_most():
    schedule = algorithm("master-worker").schedule(5)
    assert traffic(schedule, 100).busiest_both_ways == 2 * 4 * 100
