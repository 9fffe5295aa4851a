from itertools import pairwise

import numpy as np
import pytest
from fabrics import between, dragonfly, every_pair, ports, switches, walked

from dpsim.topology import DragonflyConfig


def group(name):
    return int(name[6:]) // 4 if name.startswith("router") else None


def test_the_balanced_dragonfly_of_the_paper():
    """p = h = 2, a = 4.

    9 groups, 36 routers of radix 7, one link between each pair of groups (Kim et al., figure 5).
    """
    fabric = dragonfly()
    graph = fabric.graph()
    assert (fabric.ports.count, len(switches(fabric))) == (72, 36)
    assert {graph.out_degree(router) for router in switches(fabric)} == {2 + 3 + 2}
    for a in range(9):
        for b in range(9):
            links = [1 for x, y in graph.edges if group(x) == a and group(y) == b]
            assert len(links) == (12 if a == b else 1)


def test_bisection_of_four_against_five_groups_is_a_link_a_pair():
    low = {f"router{r}" for r in range(16)}
    assert between(
        dragonfly(), low.__contains__, lambda name: name.startswith("router") and name not in low
    ) == (20, 200)


def test_few_groups_have_several_links_and_use_them_all():
    fabric = dragonfly(groups=3)
    across = [(a, b) for a, b in fabric.graph().edges if group(a) == 0 and group(b) == 1]
    assert (
        sum(fabric.graph().edges[edge]["capacity"] for edge in across) == 40
    )  # 4 routers x 2 links over 2 other groups
    source, destination = every_pair(24)
    used = {
        int(link)
        for links in fabric.routes(source, destination).links
        for link in links
        if link >= 0
    }
    assert used == set(range(len(fabric.capacities)))


def test_routes_are_minimal():
    fabric = dragonfly()
    source, destination = every_pair(72)
    for links in fabric.routes(source, destination).links[::11]:
        groups = [group(place) for place in walked(fabric, links)[1:-1]]
        assert len(groups) <= 4
        assert sum(a != b for a, b in pairwise(groups)) == len(set(groups)) - 1 <= 1


def test_rates_of_local_and_global_links():
    fabric = dragonfly(local_rate=40.0, global_rate=5.0)
    edges = {
        (group(a), group(b)): data["capacity"] for a, b, data in fabric.graph().edges(data=True)
    }
    assert (edges[0, 0], edges[0, 1], edges[None, 0]) == (40, 5, 10)


@pytest.mark.parametrize(("cards", "groups"), [(1, 1), (8, 1), (9, 2), (72, 9)])
def test_groups_follow_from_the_cards(cards, groups):
    fabric = DragonflyConfig(fabric="dragonfly").fabric_of(ports(cards))
    assert fabric.groups == groups
    assert fabric.routes(np.array([0]), np.array([cards - 1])).links.min() >= -1
