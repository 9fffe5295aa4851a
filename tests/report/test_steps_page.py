"""The data of a schedule for the player in the browser."""

import json
import re

from dpsim.collectives import algorithm
from dpsim.network import schedule_on
from dpsim.report.pages.steps_page import player_data, steps_page
from dpsim.studies.collective import named_cluster
from dpsim.studies.walkthrough import walk_through
from dpsim.topology import UniformSwitch


def test_cells_are_announced_as_they_change():
    ring = algorithm("ring").schedule(3)
    reported = player_data(walk_through(ring, 300, UniformSwitch(3, 1e9, 0.0)))
    assert len(reported["begin"]) == 9
    assert (0, 0, "a", False) in reported["begin"]
    assert reported["rounds"][0]["cells"] == [
        (0, 2, "ac", False),
        (1, 0, "ab", False),
        (2, 1, "bc", False),
    ]
    assert reported["rounds"][1]["cells"][0] == (0, 1, "abc", True)
    assert reported["rounds"][0]["moves"][0] == [0, 1, 0, 1, True]
    assert reported["rounds"][3]["said"] == (
        "round 4 of 4; 1.2 kB sent so far, 400 B by the rank that sent most; 400 ns so far"
    )


def test_the_links_of_a_round_are_those_that_carry_something():
    network, _ = named_cluster("dgx1-v100", 2)
    reported = player_data(walk_through(schedule_on(network, algorithm("ring")), 1 << 20, network))
    lines = reported["picture"]["lines"]
    numbers = {number for line in lines for number in line["numbers"]}
    for each in reported["rounds"]:
        assert {int(link) for link in each["links"]} <= numbers
    first = {network.link_name(int(link)) for link in reported["rounds"][0]["links"]}
    assert {"node0/gpu0->gpu3", "node0/nic2->switch", "switch->node1/nic0"} <= first
    assert "node0/nic1->switch" not in first
    devices = reported["picture"]["devices"]
    assert sorted(each["rank"] for each in devices.values() if "rank" in each) == [*range(16)]


def test_a_page_needs_nothing_else():
    page = steps_page([walk_through(algorithm("ring").schedule(4), 1 << 20)])
    assert re.findall(r"""(?:src|href)=|@import|url\((?!#)""", page.replace('"url(#"', "")) == []
    assert len(page) < 100_000
    (reported,) = re.findall(r'querySelector\("\.dpsim-steps"\), (\[.*\])\);</script>', page)
    assert json.loads(reported)[0]["title"] == "ring all-reduce of 4 ranks"
