"""Whatever a scenario says, it ends in a result whose every number can be, or in a clear error, in
bounded time and memory.

``python tests/fuzz scenarios`` tries as many as one likes.
"""

from __future__ import annotations

import secrets

import pytest
from campaign import tried
from hostile_cases import case

FEW, MANY = 60, 2_000
LONG = 50_000


@pytest.mark.parametrize(
    "seeds", [range(FEW), pytest.param(range(FEW, MANY), marks=pytest.mark.long)]
)
def test_scenarios_end_in_a_result_or_a_clear_error(seeds: range) -> None:
    tried(case, seeds).check(len(seeds))


@pytest.mark.long
def test_many_scenarios_of_random_seeds() -> None:
    start = secrets.randbits(60)
    tried(case, range(start, start + LONG)).check(LONG)
