"""Networks whose edges stand in the scenario or in a GraphML file."""

import numpy as np
import pytest
from pydantic import ValidationError

from dpsim.base.errors import DpsimError
from dpsim.topology import ClusterConfig, build_cluster

STAR = [{"between": ["node*/nic*", "hub"], "link": "10GbE"}]
TWO_SWITCHES = [
    {"between": ["node[01]/nic0", "left"], "rate": "10 Gbit/s", "latency": "1 us"},
    {"between": ["node[23]/nic0", "right"], "rate": "10 Gbit/s", "latency": "1 us"},
    {"between": ["left", "right"], "rate": "5 Gbit/s", "latency": "3 us"},
]


def config(edges=None, nodes=4, **network):
    output = (
        {"fabric": "custom", **network}
        if edges is None
        else {"fabric": "custom", "edges": edges, **network}
    )
    return ClusterConfig.model_validate({"nodes": nodes, "node": "single-gpu", "network": output})


def names(cluster, a, b):
    links = cluster.routes(np.array([a]), np.array([b])).links[0]
    return [
        cluster.link_name(int(link))
        for link in links
        if link >= 0 and "->" in cluster.link_name(int(link))
    ]


def test_a_star_is_a_single_switch():
    star = build_cluster(config(STAR))
    switch = build_cluster(
        ClusterConfig(
            nodes=4, node="single-gpu", network={"fabric": "single-switch", "nic": "10GbE"}
        )
    )
    pairs = np.array([0, 1, 3, 2]), np.array([3, 0, 2, 1])
    np.testing.assert_allclose(star.routes(*pairs).latency, switch.routes(*pairs).latency)
    assert sorted(star.capacities) == sorted(switch.capacities)
    assert names(star, 0, 3)[2:4] == ["node0/nic0->hub", "hub->node3/nic0"]


def test_edges_between_switches_carry_what_passes():
    cluster = build_cluster(config(TWO_SWITCHES))
    assert names(cluster, 1, 2)[2:5] == ["node1/nic0->left", "left->right", "right->node2/nic0"]
    graph = cluster.graph()
    assert graph.edges["left", "right"]["capacity"] == 5e9 / 8
    assert cluster.fabric.routes(np.array([1]), np.array([2])).latency[0] == pytest.approx(5e-6)


def test_cards_that_are_joined_to_each_other_forward():
    line = [{"between": [f"node{i}/nic0", f"node{i + 1}/nic0"], "link": "10GbE"} for i in range(3)]
    assert names(build_cluster(config(line)), 0, 3)[2:5] == [
        f"node{i}/nic0->node{i + 1}/nic0" for i in range(3)
    ]


def test_a_card_on_two_switches_does_not_forward():
    dual = [
        {"between": ["node*/nic0", "a"], "link": "10GbE"},
        {"between": ["node0/nic0", "b"], "link": "10GbE"},
        {"between": ["node1/nic0", "b"], "link": "1GbE"},
        {"between": ["a", "b"], "link": "1GbE"},
    ]
    cluster = build_cluster(config(dual))
    for a in range(4):
        for b in range(4):
            assert a == b or not any(
                "nic0" in hop.split("->")[0] for hop in names(cluster, a, b)[3:-2]
            )


def test_equally_short_paths_are_shared_by_the_seed():
    square = [
        {"between": ["node*/nic0", "a"], "link": "10GbE"},
        *(
            {"between": [end, middle], "link": "10GbE"}
            for end in ("a", "z")
            for middle in ("b", "c")
        ),
        {"between": ["node4/nic0", "z"], "link": "10GbE"},
    ]
    square[0]["between"] = ["node[0-3]/nic0", "a"]
    taken = {}
    for seed in range(8):
        cluster = build_cluster(config(square, nodes=5, ecmp_seed=seed))
        taken[seed] = tuple(names(cluster, rank, 4)[3] for rank in range(4))
    assert set().union(*taken.values()) == {"a->b", "a->c"}
    assert len(set(taken.values())) > 2


def test_graphml_says_the_same_as_edges(tmp_path):
    ends = [(f"node{i}/nic0", "left" if i < 2 else "right") for i in range(4)]
    edges = "".join(
        f'<edge source="{a}" target="{b}"><data key="r">10 Gbit/s</data><data key="l">1 us</data></edge>'
        for a, b in ends
    )
    (tmp_path / "net.graphml").write_text(
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">'
        '<key id="r" for="edge" attr.name="rate" attr.type="string"/>'
        '<key id="l" for="edge" attr.name="latency" attr.type="string"/>'
        '<graph edgedefault="undirected">'
        + "".join(f'<node id="{name}"/>' for name in ("left", "right", *(a for a, _ in ends)))
        + edges
        + '<edge source="left" target="right"><data key="r">5 Gbit/s</data><data key="l">3 us</data></edge></graph></graphml>'
    )
    inline, read = (
        build_cluster(config(TWO_SWITCHES)),
        build_cluster(config(graphml=str(tmp_path / "net.graphml"))),
    )
    pairs = np.repeat(np.arange(4), 4), np.tile(np.arange(4), 4)
    pairs = tuple(side[pairs[0] != pairs[1]] for side in pairs)
    np.testing.assert_allclose(inline.routes(*pairs).latency, read.routes(*pairs).latency)
    for a, b in zip(*pairs, strict=True):
        assert names(inline, a, b) == names(read, a, b)


def test_a_graphml_file_is_looked_for_beside_the_scenario():
    output = {
        "nodes": 4,
        "node": "single-gpu",
        "network": {"fabric": "custom", "graphml": "net.graphml"},
    }
    assert (
        ClusterConfig.model_validate(output, context={"folder": "some/where"}).network.graphml
        == "some/where/net.graphml"
    )
    assert ClusterConfig.model_validate(output).network.graphml == "net.graphml"


@pytest.mark.parametrize(
    ("edges", "message"),
    [
        ([], "must have either edges or graphml, but got neither"),
        ([{"between": ["a", "b"]}], "must have either link or rate, but got neither"),
        (
            [{"between": ["a", "b"], "link": "10GbE", "rate": "1 GB/s"}],
            "must have either link or rate, but got both",
        ),
        ([{"between": ["a", "b"], "rate": "1 GB/s"}], "must have a latency beside its rate"),
        (
            [{"between": ["node4/nic0", "b"], "link": "10GbE"}],
            "but got 'node4/nic0' (did you mean 'node",
        ),
        ([{"between": ["node0/nic1", "b"], "link": "10GbE"}], "but got 'node0/nic1'"),
        ([{"between": ["node*/gpu0", "b"], "link": "10GbE"}], "'node*/gpu0' matches none"),
        ([{"between": ["a", "a"], "link": "10GbE"}], "'a' and 'a' are the same one"),
        (
            [*STAR, {"between": ["hub", "node1/nic0"], "link": "10GbE"}],
            "'hub' and 'node1/nic0' are joined twice",
        ),
        ([{"between": ["node[0-2]/nic0", "b"], "link": "10GbE"}], "nothing joins node3/nic0"),
    ],
)
def test_edges_that_are_refused(edges, message):
    with pytest.raises(ValidationError) as caught:
        config(edges)
    assert message in str(caught.value)


def test_a_network_in_two_parts_is_refused():
    with pytest.raises(
        DpsimError,
        match=r"edges must connect all network cards, but there is no path from node2/nic0 to node0/nic0$",
    ):
        build_cluster(config(TWO_SWITCHES[:2]))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: No such file or directory"),
        ("nonsense", "must be a GraphML file, but: "),
        (
            '<graphml xmlns="http://graphml.graphdrawing.org/xmlns"><graph edgedefault="undirected"><node id="a"/><node id="b"/>'
            '<edge source="a" target="b"/></graph></graphml>',
            "edge a - b: must have either link or rate, but got neither",
        ),
    ],
)
def test_graphml_that_is_refused(tmp_path, text, message):
    if text is not None:
        (tmp_path / "net.graphml").write_text(text)
    with pytest.raises(DpsimError) as caught:
        build_cluster(config(graphml=str(tmp_path / "net.graphml")))
    assert message in str(caught.value)
    assert "net.graphml" in str(caught.value)


def test_more_cards_than_can_be_gone_through_by_name():
    edges = [{"between": ["node*/nic*", "hub"], "rate": "1 GB/s", "latency": 0}]
    with pytest.raises(
        ValueError, match="a custom network must have at most 65,536 network cards, but got 131,072"
    ):
        ClusterConfig(
            nodes=131_072,
            node="tpu-v2",
            network={"fabric": "custom", "edges": edges, "nics_per_node": 1},
        )


@pytest.mark.parametrize(
    ("window", "expected"),
    [
        ("1 MB", 1e6 / 0.068),  # a window a round trip
        ("1 GB", 5e9 / 8),  # more than the link carries
        (None, 5e9 / 8),
    ],
)
def test_a_window_limits_the_rate_of_a_long_edge(window, expected):
    long = {"between": ["left", "right"], "rate": "5 Gbit/s", "latency": "34 ms", "window": window}
    cluster = build_cluster(config([*TWO_SWITCHES[:2], long]))
    route = cluster.routes(np.array([0]), np.array([3]))
    found = min(cluster.capacities[link] for link in route.links[0] if link >= 0)
    assert found == pytest.approx(expected)
