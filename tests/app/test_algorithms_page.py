"""The page that plays schedules: what it asks the library, and what it hands to the browser."""

import re

import pytest
from app_pages import html


@pytest.mark.parametrize("operation", ["all-reduce", "all-gather", "barrier"])
def test_every_operation_is_shown(open_page, operation):
    page = open_page("algorithms", choices={"operation": operation})
    assert not page.exception
    assert not page.error
    assert len(page.get("bidi_component")) == 1


def test_the_verdict_lists_algorithms_by_time(open_page):
    page = open_page("algorithms", choices={"algorithms": "ring,halving-doubling"})
    times = re.findall(r"(halving-doubling|ring): (\S+) us in (\d+) rounds, (\S+) MB", html(page))
    assert [(name, rounds, sent) for name, _, rounds, sent in times] == [
        ("halving-doubling", "4", "1.573"),
        ("ring", "6", "1.573"),
    ]
    # Two more rounds of a latency of 1 us.
    assert float(times[1][1]) - float(times[0][1]) == pytest.approx(2, abs=0.1)


def test_up_to_four_are_shown(open_page):
    wanted = ["ring", "halving-doubling", "butterfly", "master-worker"]
    page = open_page("algorithms", choices={"algorithms": ",".join([*wanted, "round-robin"])})
    (picked,) = page.multiselect
    assert not page.exception
    assert len(picked.value) == 4
    assert all(f"{name}: " in html(page) for name in picked.value)


def test_of_a_large_cluster_some_nodes_are_shown(open_page):
    page = open_page("algorithms", choices={"where": "on the scenario's cluster"})
    assert not page.exception
    assert any("2 of the scenario's 4 nodes" in each.value for each in page.caption)
