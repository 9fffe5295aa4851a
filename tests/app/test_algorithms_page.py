"""The page that plays schedules: what it asks the library, and what it hands to the browser."""

import pytest


@pytest.mark.parametrize("operation", ["all-reduce", "all-gather", "barrier"])
def test_it_shows_every_operation(open_page, operation):
    page = open_page("algorithms", choices={"operation": operation})
    assert not page.exception
    assert not page.error
    assert len(page.get("bidi_component")) == 1


def test_a_large_cluster_is_shown_in_part(open_page):
    page = open_page("algorithms", choices={"where": "on the scenario's cluster"})
    assert not page.exception
    assert any("2 of the scenario's 4 nodes" in each.value for each in page.caption)
