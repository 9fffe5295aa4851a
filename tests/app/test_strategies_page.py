"""The page that shows strategies over time: every view, over different scenarios."""

import pytest
from app_pages import charts, html

VIEWS = {"synchronisation": 2, "overlap": 1, "sharding": 1, "weight paths": 3}


@pytest.mark.parametrize("view", VIEWS)
def test_every_view_is_drawn(open_page, view):
    page = open_page("strategies", choices={"show": view})
    assert not page.exception
    assert not page.error
    assert charts(page) == VIEWS[view]
    assert ("Workers finish first" in html(page)) == (view != "weight paths")


def test_a_language_model_on_larger_nodes_is_shown(open_page):
    page = open_page("strategies", preset="llama3-8b-8-h100-fsdp", choices={"show": "sharding"})
    assert not page.exception
    assert not page.error
    assert charts(page) == 1


def test_a_cluster_of_two_kinds_is_refused_in_a_line(open_page):
    groups = "[{node: dgx1-v100, nodes: 1}, {node: dgx-a100, nodes: 1}]"
    cluster = f"{{groups: {groups}, network: {{fabric: single-switch}}}}"
    page = open_page("strategies", set=[f"cluster={cluster}"])
    assert not page.exception
    assert "nodes of one kind" in page.error[0].value
