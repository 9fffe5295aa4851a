"""One small fabric of each kind, of ports of 10 B/s; latencies that tell links apart."""

import numpy as np

from dpsim.topology import (
    Custom,
    Dragonfly,
    FatTree,
    FullMesh,
    LeafSpine,
    Ports,
    SingleSwitch,
    Spread,
    Torus,
)
from dpsim.topology.fabrics.rail_optimised import RailOptimisedConfig


def ports(count, cards=None):
    return Ports(count, 10.0, 1.0, cards)


def leaf_spine(count=64, per_leaf=16, spines=4, **others):
    return LeafSpine(
        ports(count), np.arange(count) // per_leaf, spines=spines, switch_latency=0.25, **others
    )


def rails(nodes=6, cards=4, **others):
    config = RailOptimisedConfig(fabric="rail-optimised", switch_latency="0.25 s", **others)
    return config.fabric_of(ports(nodes * cards, np.full(nodes, cards)))


def fat_tree(k=4, count=None, **others):
    return FatTree(ports(k**3 // 4 if count is None else count), k, switch_latency=0.25, **others)


def dragonfly(groups=9, routers=4, ports_per_router=2, global_links=2, count=None, **others):
    return Dragonfly(
        ports(groups * routers * ports_per_router if count is None else count),
        groups=groups,
        routers=routers,
        ports_per_router=ports_per_router,
        global_links=global_links,
        switch_latency=0.25,
        global_latency=1.0,  # so long that no two global links are shorter than a minimal route
        **others,
    )


def ladder():
    """Two ports on each of three switches in a row, and a second row of slower switches beside
    it.
    """
    rows = [
        ("a0", "a1", 20.0, 0.5),
        ("a1", "a2", 20.0, 0.5),
        ("b0", "b1", 20.0, 0.5),
        ("b1", "b2", 20.0, 0.5),
    ]
    steps = [(f"a{i}", f"b{i}", 5.0, 0.125) for i in range(3)]
    ends = [(f"port{p}", f"a{p // 2}", 10.0, 1.0) for p in range(6)]
    return Custom(ports(6), [*ends, *rows, *steps])


FABRICS = {
    "switch": SingleSwitch(ports(9)),
    "leaf-spine": leaf_spine(),
    "leaf-spine-partly-filled": leaf_spine(50, spread=Spread(None)),
    "rails": rails(),
    "rails-in-sets": rails(7, 2, nodes_per_rail=3, spines=3),
    "fat-tree-2": fat_tree(2),
    "fat-tree-4": fat_tree(4),
    "fat-tree-6": fat_tree(6, 41, spread=Spread(None)),
    "torus-1": Torus(ports(7), (7,)),
    "torus-2": Torus(ports(20), (4, 5)),
    "torus-3": Torus(ports(24), (2, 3, 4)),
    "torus-thin": Torus(ports(6), (1, 6)),
    "torus-destination": Torus(ports(16), (4, 4), spread=Spread(None)),
    "mesh": FullMesh(ports(7)),
    "dragonfly": dragonfly(),
    "dragonfly-few-groups": dragonfly(groups=3, count=21),
    "dragonfly-one-group": dragonfly(groups=1),
    "custom": ladder(),
}


def every_pair(count):
    source, destination = np.divmod(np.arange(count**2), count)
    return source[source != destination], destination[source != destination]


def walked(fabric, links):
    """The places that a row of links leads through; each link begins where the last one ends."""
    places = []
    for link in links[links >= 0]:
        a, b = fabric.link(int(link))
        assert not places or places[-1] == a
        places = [*(places or [a]), b]
    return places


def switches(fabric):
    return {name for name in fabric.graph() if not name.startswith("port")}


def between(fabric, first, second):
    """Number and total rate of the links from places of ``first`` to places of ``second``
    (predicates on names).
    """
    rates = [
        data["capacity"] for a, b, data in fabric.graph().edges(data=True) if first(a) and second(b)
    ]
    return len(rates), sum(rates)
