"""Links that all flows so far crossed alike are one class."""

from itertools import combinations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from dpsim.network.flows.link_classes import LinkClasses

LINKS = 6


def cross(classes, links, share=None, announced=None):
    """The classes and shares of one route as lists; its children are put into ``announced``."""
    announced = [] if announced is None else announced
    share = np.ones((1, len(links))) if share is None else np.array([share], float)
    found, shares = classes.crossed(np.array([links]), share, announced.append)
    return found[:, 0].tolist(), shares[:, 0].tolist()


def children(announced):
    return [{parent: int(child) for parent, child in enumerate(of) if child} for of in announced]


def test_links_of_a_first_route_are_one_class_as_fast_as_the_slowest():
    classes = LinkClasses(np.array([5.0, 3.0, 4.0, 9.0]))
    assert cross(classes, [0, 1, 2]) == ([1], [1])
    assert classes.capacity.tolist() == [np.inf, 3]
    assert classes.of.tolist() == [1, 1, 1, 0, 0]


def test_links_of_different_shares_are_distinguished():
    classes = LinkClasses(np.ones(4))
    (one, half), shares = cross(classes, [0, 1, 2, 3], [1, 0.5, 1, 0.5])
    assert shares == [1, 0.5]
    assert classes.of.tolist() == [one, half, one, half, 0]


def test_a_route_over_a_part_of_a_class_splits_it():
    classes, announced = LinkClasses(np.array([5.0, 3.0, 4.0])), []
    cross(classes, [0, 1, 2])
    assert cross(classes, [1], announced=announced) == ([2], [1])
    assert children(announced) == [{1: 2}]
    assert classes.capacity.tolist() == [np.inf, 4, 3]
    assert cross(classes, [0, 1, 2]) == ([1, 2], [1, 1])


def test_a_class_may_have_several_parts():
    classes, announced = LinkClasses(np.ones(4)), []
    cross(classes, [0, 1, 2, 3])
    cross(classes, [0, 1, 2], [1, 0.5, 0.25], announced)
    assert sorted(child for of in children(announced) for child in of.values()) == [2, 3, 4]
    assert all(set(of) == {1} for of in children(announced))


def test_a_route_that_is_known_splits_nothing():
    classes, announced = LinkClasses(np.ones(4)), []
    for _ in range(3):
        cross(classes, [0, 1], announced=announced)
        cross(classes, [2, 3], announced=announced)
    assert announced == []
    assert len(classes.capacity) == 3


def test_two_routes_of_a_link_each_are_not_one_of_two_links():
    classes, announced = LinkClasses(np.ones(2)), []
    cross(classes, [0, 1])
    found, _ = classes.crossed(np.array([[0], [1]]), np.ones((2, 1)), announced.append)
    assert sorted(found.ravel().tolist()) == [1, 2]
    assert children(announced) == [{1: 2}]


def test_a_link_crossed_twice_counts_twice():
    (first, again, other), shares = cross(LinkClasses(np.ones(2)), [0, 0, 1])
    assert first == again != other
    assert shares == [1, 1, 1]


def test_a_capacity_that_changes_changes_its_class():
    classes = LinkClasses(np.array([5.0, 3.0, 4.0]))
    cross(classes, [0, 1])
    assert classes.set_capacity(np.array([1, 2]), np.array([7.0, 0.0])).tolist() == [0, 1]
    assert classes.capacity.tolist() == [np.inf, 5]
    assert not classes.any_cut
    classes.set_capacity(np.array([0]), 0.0)
    assert classes.any_cut


routes = st.dictionaries(st.integers(0, LINKS - 1), st.sampled_from([1.0, 0.5, 0.25]), min_size=1)


@settings(deadline=None)
@given(st.lists(st.lists(routes, min_size=1, max_size=3), max_size=8))
def test_two_links_are_of_one_class_when_every_route_so_far_crossed_both_alike(calls):
    classes = LinkClasses(np.arange(1.0, LINKS + 1))
    for call in calls:
        hops = max(map(len, call))
        links = np.array([[*route] + [-1] * (hops - len(route)) for route in call])
        share = np.array([[*route.values()] + [1.0] * (hops - len(route)) for route in call])
        classes.crossed(links, share, lambda _: None)
    seen = [[route.get(link, 0) for call in calls for route in call] for link in range(LINKS)]
    for a, b in combinations([link for link in range(LINKS) if any(seen[link])], 2):
        assert (classes.of[a] == classes.of[b]) == (seen[a] == seen[b])
    for number in range(1, len(classes.capacity)):
        assert classes.capacity[number] == 1 + np.flatnonzero(classes.of == number).min()
