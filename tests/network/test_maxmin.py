"""Max-min fair sharing: by hand, against a slow solver, and by its definition."""

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpsim.network import max_min_rates


def laid_out(flows):
    """Lists of links as one array, short ones padded with -1."""
    hops = max((len(flow) for flow in flows), default=0)
    return np.array(
        [list(flow) + [-1] * (hops - len(flow)) for flow in flows], dtype=np.int64
    ).reshape(len(flows), hops)


def rates(flows, capacities, shares=None):
    links = laid_out(flows)
    share = (
        None
        if shares is None
        else np.array([[*map(float, s)] + [0] * (links.shape[1] - len(s)) for s in shares])
    )
    return max_min_rates(links, np.array(capacities, float), share)


def slow_rates(flows, capacities, shares=None):
    """One bottleneck at a time, in exact fractions."""
    shares = shares or [[1] * len(links) for links in flows]
    takes = [
        dict(zip(links, share, strict=True)) for links, share in zip(flows, shares, strict=True)
    ]
    left = [Fraction(capacity) for capacity in capacities]
    found = {}
    while len(found) < len(flows):
        users = {
            link: [f for f, links in enumerate(flows) if link in links and f not in found]
            for link in range(len(left))
        }
        levels = {
            link: left[link] / sum(takes[f][link] for f in using)
            for link, using in users.items()
            if using
        }
        if not levels:
            return [float(found.get(f, np.inf)) for f in range(len(flows))]
        narrowest = min(levels, key=levels.get)
        for flow in users[narrowest]:
            found[flow] = levels[narrowest]
            for link in flows[flow]:
                left[link] -= levels[narrowest] * takes[flow][link]
    return [float(found[f]) for f in range(len(flows))]


@st.composite
def problems(draw):
    capacities = draw(st.lists(st.integers(1, 100), min_size=1, max_size=6))
    link = st.integers(0, len(capacities) - 1)
    flows = draw(st.lists(st.lists(link, max_size=3, unique=True), min_size=1, max_size=10))
    return flows, capacities


@st.composite
def shared_problems(draw):
    flows, capacities = draw(problems())
    share = st.fractions(Fraction(1, 16), 1, max_denominator=16)
    return flows, capacities, [[draw(share) for _ in links] for links in flows]


def test_one_link_is_shared_evenly():
    assert rates([[0], [0], [0], [0]], [10]).tolist() == [2.5] * 4


def test_what_one_flow_cannot_use_goes_to_the_others():
    # Flow 0 crosses both links and gets half of the narrow one; flow 2 has the rest of the wide
    # one.
    assert rates([[0, 1], [0], [1]], [2, 10]).tolist() == [1, 1, 9]


def test_without_a_link_there_is_no_limit():
    assert rates([[], [0]], [5]).tolist() == [np.inf, 5]
    assert rates([], [5]).tolist() == []
    assert rates([[]], [5]).tolist() == [np.inf]


def test_a_link_crossed_twice_counts_twice():
    assert rates([[0, 0]], [10]).tolist() == [5]


def test_a_flow_takes_its_share_of_a_link():
    # Half of flow 0 crosses link 1: by itself it would be held to 8 by that one; flow 1 takes all
    # of its rate there.
    assert rates([[0, 1]], [10, 4], shares=[[1, 0.5]]).tolist() == [8]
    assert rates([[0, 1], [1]], [10, 6], shares=[[1, 0.5], [1]]).tolist() == [4, 4]
    assert rates([[0, 1], [1]], [2, 6], shares=[[1, 0.5], [1]]).tolist() == [2, 5]


def test_no_share_of_a_link_is_as_good_as_not_crossing_it():
    assert rates([[0, 1], [1]], [5, 8], shares=[[1, 0], [1]]).tolist() == [5, 8]
    assert rates([[0]], [5], shares=[[0]]).tolist() == [np.inf]


def test_shares_of_many_equal_links_are_those_of_one_as_many_times_as_fast():
    flows = [[worker, *range(4, 20)] for worker in range(4)]
    shares = [[1] + [1 / 16] * 16] * 4
    assert rates(flows, [10, 1, 10, 10] + [1] * 16, shares=shares).tolist() == [5, 1, 5, 5]


def test_a_capacity_without_limit_limits_nobody():
    assert rates([[0], [1], [1, 0]], [np.inf, 6]).tolist() == [np.inf, 3, 3]


def test_few_links_of_many_are_solved_by_themselves():
    capacities = np.arange(1.0, 10_001.0)
    found = max_min_rates(np.array([[9_999, 5_000], [5_000, -1], [7, -1]]), capacities)
    assert found.tolist() == [2500.5, 2500.5, 8]


@given(shared_problems())
def test_rates_with_shares_are_those_of_the_slow_solver(problem):
    flows, capacities, shares = problem
    np.testing.assert_allclose(
        rates(flows, capacities, shares=shares), slow_rates(flows, capacities, shares), rtol=1e-9
    )


@given(shared_problems())
def test_shares_exceed_no_capacity_and_every_flow_has_a_full_link_where_nobody_gets_more(problem):
    flows, capacities, shares = problem
    found = rates(flows, capacities, shares=shares)
    takes = [
        dict(zip(links, share, strict=True)) for links, share in zip(flows, shares, strict=True)
    ]
    users = [
        [f for f, links in enumerate(flows) if link in links] for link in range(len(capacities))
    ]
    used = [
        sum(found[f] * float(takes[f][link]) for f in using) for link, using in enumerate(users)
    ]
    assert all(
        taken <= capacity * (1 + 1e-9) for taken, capacity in zip(used, capacities, strict=True)
    )
    for flow, links in enumerate(flows):
        full = [link for link in links if used[link] >= capacities[link] * (1 - 1e-9)]
        assert not links or any(
            found[flow] >= max(found[users[link]]) * (1 - 1e-9) for link in full
        )


@given(problems())
def test_rates_are_those_of_the_slow_solver(problem):
    flows, capacities = problem
    np.testing.assert_allclose(rates(flows, capacities), slow_rates(flows, capacities), rtol=1e-9)


@given(problems())
def test_no_capacity_is_exceeded_and_every_flow_has_a_full_link_where_nobody_gets_more(problem):
    flows, capacities = problem
    found = rates(flows, capacities)
    users = [
        [found[f] for f, links in enumerate(flows) if link in links]
        for link in range(len(capacities))
    ]
    assert all(
        sum(using) <= capacity * (1 + 1e-9)
        for using, capacity in zip(users, capacities, strict=True)
    )
    for flow, links in enumerate(flows):
        full = [link for link in links if sum(users[link]) >= capacities[link] * (1 - 1e-9)]
        assert not links or any(found[flow] >= max(users[link]) * (1 - 1e-9) for link in full)


@given(problems(), st.randoms())
def test_the_order_of_flows_does_not_matter(problem, random):
    flows, capacities = problem
    order = random.sample(range(len(flows)), len(flows))
    np.testing.assert_allclose(
        rates([flows[f] for f in order], capacities), rates(flows, capacities)[order], rtol=1e-12
    )


@given(problems(), st.data())
def test_a_weight_stands_for_as_many_equal_flows(problem, data):
    flows, capacities = problem
    weights = data.draw(st.lists(st.integers(1, 5), min_size=len(flows), max_size=len(flows)))
    shares = [[weight] * len(flow) for flow, weight in zip(flows, weights, strict=True)]
    repeated = [flow for flow, weight in zip(flows, weights, strict=True) for _ in range(weight)]
    np.testing.assert_allclose(
        np.repeat(rates(flows, capacities, shares), weights),
        rates(repeated, capacities),
        rtol=1e-9,
    )


@pytest.mark.parametrize("scale", [1e-3, 1e12])
@given(problem=problems())
def test_rates_scale_with_capacities(scale, problem):
    flows, capacities = problem
    scaled = rates(flows, [capacity * scale for capacity in capacities])
    np.testing.assert_allclose(scaled, rates(flows, capacities) * scale, rtol=1e-9)
