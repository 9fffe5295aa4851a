"""The front: nothing on it is beaten, everything off it is."""

from hypothesis import given
from hypothesis import strategies as st

from dpsim.studies.front import pareto_front

POINTS = st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30)


def front(points):
    return pareto_front(points, lambda point: point[0], lambda point: point[1])


def beats(one, other):
    return one != other and one[0] <= other[0] and one[1] <= other[1]


def test_the_fastest_comes_first_and_equal_points_count_once():
    assert front([(3, 1), (1, 5), (2, 5), (2, 2), (2, 2), (4, 1)]) == [(1, 5), (2, 2), (3, 1)]


@given(POINTS)
def test_what_is_on_the_front_is_what_nothing_beats(points):
    assert set(front(points)) == {
        point for point in points if not any(beats(other, point) for other in points)
    }
