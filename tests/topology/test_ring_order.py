from itertools import permutations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from dpsim.topology.node_graph import ring_order


def narrowest(bandwidth, order):
    return min(bandwidth[a, b] for a, b in zip(order, [*order[1:], order[0]], strict=True))


def test_it_goes_round_by_the_wide_links():
    bandwidth = np.ones((4, 4))
    for a, b in ((0, 2), (2, 1), (1, 3), (3, 0)):
        bandwidth[a, b] = bandwidth[b, a] = 9
    assert ring_order(bandwidth) == [0, 2, 1, 3]


def test_equal_links_leave_the_order_as_it_is():
    assert ring_order(np.ones((6, 6))) == [0, 1, 2, 3, 4, 5]


def test_up_to_three_places_have_one_ring():
    assert [ring_order(np.ones((n, n))) for n in (1, 2, 3)] == [[0], [0, 1], [0, 1, 2]]


@given(st.integers(4, 6), st.integers(0, 999))
def test_no_order_has_a_wider_narrowest_hop(places, seed):
    half = np.triu(np.random.default_rng(seed).integers(1, 5, (places, places)), 1)
    bandwidth = (half + half.T).astype(float)
    best = max(narrowest(bandwidth, (0, *rest)) for rest in permutations(range(1, places)))
    found = ring_order(bandwidth)
    assert sorted(found) == list(range(places))
    assert narrowest(bandwidth, found) == best
