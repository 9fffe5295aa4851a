"""A few cases of many, in which every value and every pair of values still occurs.

A test marked ``pairwise`` has such a selection of its parameters in `make test`, and the others,
which are marked ``wide``, in `make test-wide`.
"""

from collections import defaultdict
from itertools import combinations

import pytest


def covering(cases, strength=2):
    """Places of the chosen cases, in order; the next is always the one with most that is new.

    ``cases`` are tuples of hashable values, one an axis. What occurs in the same case, of each
    ``strength`` axes, does so in a chosen one. Equal cases give equal choices, in any process.
    """
    parts = [set(combinations(enumerate(case), min(strength, len(case)))) for case in cases]
    missing = set().union(*parts)
    chosen = []
    while missing:
        best = max(range(len(parts)), key=lambda place: len(parts[place] & missing))
        missing -= parts[best]
        chosen.append(best)
    return sorted(chosen)


def mark_wide(items):
    """Marks what is beyond the covering selection of each test that is marked ``pairwise``."""
    cases = defaultdict(list)
    for item in items:
        if item.get_closest_marker("pairwise") and not item.get_closest_marker("long"):
            cases[item.nodeid.partition("[")[0]].append(item)
    for same in cases.values():
        strength = same[0].get_closest_marker("pairwise").kwargs.get("strength", 2)
        chosen = covering([_values(item) for item in same], strength)
        for place in set(range(len(same))) - set(chosen):
            same[place].add_marker(pytest.mark.wide)


def _values(item):
    return tuple(repr(value) for _, value in sorted(item.callspec.params.items()))
