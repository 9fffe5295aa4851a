"""Every schedule on real ranks: gloo over loopback.

Five ranks are started once, and the first 1 to 5 of them used.
"""

import sys
from collections import Counter
from pathlib import Path

import pytest

from dpsim.collectives import ALGORITHMS, OPERATIONS
from validate.ranks.launch import launch, loopback

pytestmark = pytest.mark.torch
PROGRAM = str(Path(__file__).parent / "conformance.py")


@pytest.fixture(scope="module")
def recorded():
    """All that the ranks recorded, by what it is about."""
    rows = launch(
        [sys.executable, PROGRAM],
        loopback(5),
        timeout_s=240,
        connect_timeout_s=120,
        preload=["validate.collectives"],
    ).rows
    return {
        what: [row for row in rows if row["what"] == what] for what in {row["what"] for row in rows}
    }


@pytest.mark.parametrize(
    ("what", "ranks"), [*(("schedule", m) for m in range(1, 6)), ("grouped", 3), ("staged", 3)]
)
def test_every_rank_ends_with_what_arithmetic_gives(recorded, what, ranks):
    rows = [row for row in recorded[what] if row["ranks"] == ranks]
    assert Counter(row["rank"] for row in rows) == dict.fromkeys(range(ranks), len(rows) // ranks)
    assert {tuple(row["case"].split("/")[:2]) for row in rows} >= {
        (one.operation, one.name) for one in ALGORITHMS
    }
    assert [row for row in rows if row["wrong"]] == []


@pytest.mark.parametrize("what", ["type", "library"])
def test_nothing_is_wrong(recorded, what):
    assert len(recorded[what]) >= 5 * 8
    assert [row for row in recorded[what] if row["wrong"]] == []


def test_every_operation_calls_the_library(recorded):
    assert {row["case"].split("/")[0] for row in recorded["library"]} == set(OPERATIONS)


def test_ranks_begin_at_their_own_starts_and_nobody_ends_before_the_last_has_begun(recorded):
    row = recorded["starts"][0]
    assert row["one_clock"]
    for begins, ends in zip(row["begins"], row["ends"], strict=True):
        assert min(begins) == begins[0] == 0
        assert all(begin > 0.05 * rank - 0.03 for rank, begin in enumerate(begins))
        assert min(ends) > max(begins)


def test_all_ranks_have_the_same_timing(recorded):
    first, *others = (
        {key: value for key, value in row.items() if key != "rank"} for row in recorded["starts"]
    )
    assert others == [first] * 4


def test_a_false_result_is_found(recorded):
    assert all(row["wrong"] > 100 for row in recorded["false"])
