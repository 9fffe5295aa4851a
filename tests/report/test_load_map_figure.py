"""Links by the kinds of their ends: their load, and the picture of one of each kind."""

import numpy as np
import pytest

from dpsim.engine import LinkLoads, link_classes
from dpsim.hardware import nodes
from dpsim.report.figures.load_map_figure import load_map_figure
from dpsim.topology import ClusterConfig, build_cluster


def loaded(count=2, node="dgx1-v100", shares=None, **network):
    """A cluster whose links, by name, carry a share of their rate over 100 s; the others nothing."""
    given = {"network": {"fabric": "single-switch", **network}}
    made = build_cluster(ClusterConfig(nodes=count, node=nodes()[node], **given))
    names = [made.link_name(link) for link in range(len(made.capacities))]
    carried = np.zeros(len(names))
    for name, share in (shares or {}).items():
        carried[names.index(name)] = share * made.capacities[names.index(name)] * 100.0
    return made, LinkLoads("a test", carried, 100.0, "over the step")


def by_ends(classes):
    return {each.ends: each for each in classes}


def test_a_class_has_the_share_of_its_busiest_link_and_the_mean_of_all():
    made, loads = loaded(shares={"node0/nic0->switch": 0.9, "switch->node1/nic0": 0.5})
    classes = link_classes(made, loads)
    cards = by_ends(classes)["nic", "switch"]
    assert classes[0] is cards
    assert cards.share == pytest.approx(0.9)
    assert cards.busiest == "node0/nic0->switch"
    assert cards.mean == pytest.approx(1.4 / cards.links)
    assert cards.rate == pytest.approx(made.capacities[-cards.links])
    others = [each for each in classes if each is not cards]
    assert all(each.share == 0 for each in others)


def test_every_link_is_in_one_class():
    made, loads = loaded(count=3, fabric="leaf-spine", nodes_per_leaf=2, spines=2)
    classes = link_classes(made, loads)
    assert sum(each.links for each in classes) == made.graph().number_of_edges()
    assert ("leaf", "spine") in by_ends(classes)


def test_a_link_between_two_of_a_kind_ends_at_another_of_it():
    made, loads = loaded()
    devices = load_map_figure(link_classes(made, loads)).data[-1]
    heights = [y for y, kind in zip(devices.y, devices.text, strict=True) if kind == "GPU"]
    assert len(heights) == 2
    assert heights[0] == heights[1]


def test_the_picture_has_the_fabric_on_top_and_says_the_share_of_each_class():
    made, loads = loaded(
        count=3,
        fabric="leaf-spine",
        nodes_per_leaf=2,
        spines=2,
        shares={"node0/nic0->leaf0": 0.75},
    )
    figure = load_map_figure(link_classes(made, loads))
    devices = figure.data[-1]
    heights = dict(zip(devices.text, devices.y, strict=True))
    assert heights["spine"] > heights["leaf"] > heights["network card"] > heights["GPU"]
    numbers = {text for line in figure.data[:-1] for text in line.text if text}
    assert any("<b>75%</b>" in text for text in numbers)
    assert figure.layout.title.text == "Busiest link: leaf to network card, 75%"
    assert "share of its rate over the step" in figure.layout.title.subtitle.text
    busiest, idle = figure.data[-2], figure.data[0]
    assert busiest.line.width > idle.line.width


@pytest.mark.parametrize("node", list(nodes()))
def test_no_devices_of_a_node_overlap_and_idle_links_are_noted(node):
    made, loads = loaded(node=node)
    figure = load_map_figure(link_classes(made, loads))
    devices = figure.data[-1]
    places = list(zip(devices.x, devices.y, strict=True))
    assert len(set(places)) == len(places)
    assert figure.layout.title.subtitle.text == "no traffic"
    assert figure.layout.title.text == "Load of the links"
