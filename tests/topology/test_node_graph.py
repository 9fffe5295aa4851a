"""Inside a node: routes between GPUs, their order in a ring, their network cards."""

from functools import cache
from itertools import pairwise

import networkx as nx
import numpy as np
import pytest

from dpsim.hardware import Node, nodes
from dpsim.topology import ClusterConfig, NodeGraph, build_cluster

NVLINK_NODES = ("dgx1-p100", "dgx1-v100", "dgx-a100", "dgx-h100")
PAIR = {
    "gpu": "p40",
    "devices": {"gpu": 2, "cpu": 1},
    "edges": [{"between": ["gpu*", "cpu0"], "link": "pcie3-x16"}],
    "capacities": {"cpu": {"value": "5 GB/s", "source": "made up"}},
    "nic_slots": ["cpu0"],
    "nic_bus": "pcie3-x8",
    "nics": {"link": "10GbE", "count": 2},
}


@cache
def graph_of(name, cards=None):
    return NodeGraph(nodes()[name], nics=cards)


@pytest.fixture(params=sorted(nodes()))
def node(request):
    return graph_of(request.param)


def hops(graph, path):
    return [graph.links[a][b] for a, b in pairwise(path)]


def ring_paths(graph):
    return [
        graph.path(a, b) for a, b in zip(graph.gpus, [*graph.gpus[1:], graph.gpus[0]], strict=True)
    ]


@pytest.mark.parametrize("name", NVLINK_NODES)
def test_a_ring_through_the_gpus_crosses_only_nvlinks(name):
    graph = NodeGraph(nodes()[name])
    assert all(
        hop["link"].startswith("nvlink") for path in ring_paths(graph) for hop in hops(graph, path)
    )


def test_the_ring_of_a_dgx1_v100_takes_its_double_links():
    graph = NodeGraph(nodes()["dgx1-v100"])
    assert graph.gpus == ["gpu0", "gpu3", "gpu2", "gpu1", "gpu5", "gpu6", "gpu7", "gpu4"]
    assert [hop["count"] for path in ring_paths(graph) for hop in hops(graph, path)] == [2] * 8


def test_gpus_stay_in_order_where_all_hops_are_alike():
    assert NodeGraph(nodes()["dgx-a100"]).gpus == [f"gpu{i}" for i in range(8)]


def test_four_gpus_of_a_dgx1_make_a_ring_of_nvlinks_too():
    graph = NodeGraph(nodes()["dgx1-v100"], gpus=4)
    assert sorted(graph.gpus) == ["gpu0", "gpu1", "gpu2", "gpu3"]
    assert all(len(path) == 2 for path in ring_paths(graph))


def test_no_route_passes_through_another_gpu_or_card(node):
    ends = node.gpus + node.nics
    kinds = {device: data["kind"] for device, data in node.devices.items()}
    for path in (node.path(a, b) for a in ends for b in ends if a != b):
        assert {kinds[device] for device in path[1:-1]}.isdisjoint({"gpu", "nic"})


def test_a_route_is_the_one_that_takes_a_mebibyte_soonest(node):
    ends = node.gpus + node.nics
    for a in node.gpus:
        # Nothing goes on from another GPU or card.
        ways = {
            device: others
            for device, others in node.links.items()
            if device == a or device not in ends
        }
        graph = nx.from_dict_of_dicts(ways, create_using=nx.DiGraph)
        soonest = nx.single_source_dijkstra_path_length(graph, a)
        for b in node.gpus:
            seconds = sum(
                hop["latency"] + 2**20 / hop["capacity"] for hop in hops(node, node.path(a, b))
            )
            assert seconds == pytest.approx(soonest[b])


def test_links_are_full_duplex_and_every_capacity_has_a_name_of_its_own(node):
    assert len(set(node.names)) == len(node.names) == len(node.capacities)
    for a, ways in node.links.items():
        for b, data in ways.items():
            assert node.names[data["number"]] == f"{a}->{b}"
            assert (
                node.capacities[data["number"]]
                == node.capacities[node.links[b][a]["number"]]
                == data["capacity"]
            )


def test_routes_are_the_links_of_their_paths_and_the_devices_with_a_limit():
    node = NodeGraph(Node.model_validate(PAIR))
    assert node.path("gpu0", "gpu1") == ["gpu0", "cpu0", "gpu1"]
    assert sorted(node.names[link] for link in node.between_gpus.links[0, 1]) == [
        "cpu0",
        "cpu0->gpu1",
        "gpu0->cpu0",
    ]
    assert node.capacities[node.names.index("cpu0")] == 5e9
    assert node.between_gpus.latency[0, 1] == 2 * node.links["gpu0"]["cpu0"]["latency"]


def test_a_gpu_reaches_itself_over_no_link(node):
    here = np.arange(len(node.gpus))
    assert (node.between_gpus.links[here, here] == -1).all()
    assert (node.between_gpus.latency[here, here] == 0).all()


def test_a_processor_sends_through_a_gpu_where_the_card_hangs_on_one():
    node = NodeGraph(nodes()["testbed-host"].model_copy(update={"nic_slots": ("gpu0",)}), host=True)
    assert node.path("cpu0", "nic0") == ["cpu0", "gpu0", "nic0"]
    assert node.path("nic0", "cpu0") == ["nic0", "gpu0", "cpu0"]


@pytest.mark.parametrize("name", ["dgx1-p100", "dgx1-v100", "dgx-a100", "dgx-h100"])
def test_a_gpu_uses_a_card_on_its_own_pcie_switch(name):
    node = NodeGraph(nodes()[name])
    assert {
        len(node.path(gpu, node.nics[nic])) for gpu, nic in zip(node.gpus, node.nic_of, strict=True)
    } == {3}


def test_gpus_spread_over_the_cards(node):
    loads = np.bincount(node.nic_of, minlength=len(node.nics))
    assert loads.max() - loads.min() == 0


def test_equally_near_cards_are_taken_in_turn():
    assert NodeGraph(Node.model_validate(PAIR)).nic_of == [0, 1]
    assert NodeGraph(Node.model_validate(PAIR), nics=1).nic_of == [0, 0]


def test_fewer_cards_are_shared_by_the_gpus_near_them():
    node = NodeGraph(nodes()["dgx1-v100"], nics=2)
    near = dict(zip(node.gpus, node.nic_of, strict=True))
    assert near == {f"gpu{i}": int(i >= 4) for i in range(8)}


@pytest.mark.parametrize("name", nodes())
@pytest.mark.parametrize("cards", [None, 1, 2, 3, 4, 8])
def test_a_card_of_another_socket_is_used_only_where_none_is_nearer(name, cards):
    node = graph_of(name, cards)

    def crosses(gpu, nic):
        return {"cpu0", "cpu1"} <= set(node.path(gpu, nic))

    for gpu, nic in zip(node.gpus, node.nic_of, strict=True):
        assert not crosses(gpu, node.nics[nic]) or all(crosses(gpu, other) for other in node.nics)


def test_nodes_of_one_name_that_differ_are_not_taken_for_one_another():
    """Graphs are kept for the next cluster of the same node; both of these are called inline."""
    wider = PAIR | {"edges": [{"between": ["gpu*", "cpu0"], "link": "pcie4-x16"}]}
    first, second, again = (
        build_cluster(ClusterConfig.model_validate({"node": given})).node
        for given in (PAIR, wider, PAIR)
    )
    assert second.links["gpu0"]["cpu0"]["link"] == "pcie4-x16"
    assert again is first
