"""The selection that `make test` has of a product."""

from itertools import combinations, product
from types import SimpleNamespace

import pytest
from pairwise import covering, mark_wide

AXES = ("abcd", "efgh", "ijkl", "mno")
ALL = [*product(*AXES)]


@pytest.mark.parametrize(("strength", "most"), [(1, 4), (2, 24), (3, 96), (4, 192)])
def test_every_combination_of_values_stays_covered(strength, most):
    def combined(cases):
        return {part for case in cases for part in combinations(enumerate(case), strength)}

    chosen = covering(ALL, strength)
    assert combined(ALL[place] for place in chosen) == combined(ALL)
    assert len(chosen) <= most


def test_pairs_that_no_case_has_are_not_required():
    cases = [case for case in ALL if case[:2] != ("a", "e")]
    assert {cases[place][:2] for place in covering(cases)} == {case[:2] for case in cases}


def test_nothing_to_choose():
    assert covering([]) == []
    assert covering([("a", "b")]) == [0]


class Item(SimpleNamespace):
    """As much of a collected test as is needed."""

    def get_closest_marker(self, name):
        return self.marks.get(name)

    def add_marker(self, mark):
        self.marks[mark.name] = mark


def test_each_test_has_a_selection_and_long_ones_are_none_of_it():
    cases = product("ab", "cd", "ef")
    items = [
        Item(
            nodeid=f"{test}[{'-'.join(case)}]",
            callspec=SimpleNamespace(params=dict(zip("xyz", case, strict=True))),
            marks={mark: getattr(pytest.mark, mark).mark for mark in marks},
        )
        for case in cases
        for test, marks in {"a": ["pairwise"], "b": [], "c": ["pairwise", "long"]}.items()
    ]
    mark_wide(items)
    assert [
        item.nodeid for item in items if "wide" not in item.marks and item.nodeid[0] == "a"
    ] == [
        "a[a-c-e]",
        "a[a-d-f]",
        "a[b-c-f]",
        "a[b-d-e]",
    ]
    assert not any("wide" in item.marks for item in items if item.nodeid[0] != "a")
