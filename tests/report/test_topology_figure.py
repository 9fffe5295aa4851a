"""The picture of a cluster under load, and the loads in it."""

import json
import re
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from json_docs import documented_keys

from dpsim.engine.calls import planned
from dpsim.engine.link_loads import LinkLoads, busiest_links, link_loads
from dpsim.engine.preparation import prepare
from dpsim.hardware import nodes
from dpsim.report.figures.topology_figure import topology_figure
from dpsim.report.figures.topology_layout import layout
from dpsim.scenario import load_scenario
from dpsim.topology import Cluster, ClusterConfig, build_cluster

ROOT = Path(__file__).parents[2]
QUICKSTART = ROOT / "scenarios" / "quickstart.yaml"


def cluster(count=2, node="dgx1-v100", **network) -> Cluster:
    given = {"network": {"fabric": "single-switch", **network}} if network else {}
    return build_cluster(ClusterConfig(nodes=count, node=nodes()[node], **given))


def loads_of(made, **by_name):
    """100 s under loads given by the name of the link, as a share of its rate; ``__`` stands for
    ``->``.
    """
    names = [made.link_name(link) for link in range(len(made.capacities))]
    carried = np.zeros(len(names))
    for name, share in by_name.items():
        carried[names.index(name)] = share * made.capacities[names.index(name)] * 100.0
    return LinkLoads("a test", carried, 100.0)


def hovers(figure):
    (trace,) = [trace for trace in figure.data if trace.name == "links"]
    return {
        text.split("</b>")[0].removeprefix("<b>"): (text, share)
        for text, share in zip(trace.text, trace.marker.color, strict=True)
    }


def test_each_full_duplex_link_is_one_line_with_both_directions_under_the_pointer():
    made = cluster()
    figure = topology_figure(
        made, loads_of(made, **{"node0/nic0->switch": 0.5, "switch->node0/nic0": 0.25})
    )
    shown = hovers(figure)
    assert len(shown) == made.graph().number_of_edges() / 2
    (key,) = [key for key in shown if key in ("node0/nic0 → switch", "switch → node0/nic0")]
    text, share = shown[key]
    assert share == pytest.approx(0.5)
    assert "50% of it while in use" in text
    assert "25% of it while in use" in text
    assert text.count("rate ") == 2


def line_styles(figure):
    """Colour and width of each trace of lines, with how many lines it holds."""
    drawn = [trace for trace in figure.data if trace.mode == "lines"]
    return [
        (trace.line.color, trace.line.width, sum(x is None for x in trace.x)) for trace in drawn
    ]


def test_more_load_is_another_colour_and_more_bytes_a_wider_line():
    made = cluster()
    styles = line_styles(
        topology_figure(
            made, loads_of(made, **{"node0/nic0->switch": 1.0, "node1/nic0->switch": 0.2})
        )
    )
    unused, low, high = sorted(styles, key=lambda style: style[1])
    assert (low[2], high[2]) == (1, 1)
    assert unused[2] == made.graph().number_of_edges() / 2 - 2
    assert len({unused[0], low[0], high[0]}) == 3


def test_nothing_loaded_is_all_grey():
    made = cluster()
    figure = topology_figure(made, LinkLoads("nothing", np.zeros(len(made.capacities)), 0.0))
    assert len(line_styles(figure)) == 1
    assert "busiest" not in figure.layout.title.subtitle.text


def test_the_title_says_what_is_shown_and_what_is_busiest():
    made = cluster()
    layout = topology_figure(made, loads_of(made, **{"switch->node1/nic0": 0.75}), "mine").layout
    assert layout.title.text == "mine: load of the links"
    output = layout.title.subtitle.text
    assert output == "2 nodes, 16 GPUs; busiest: switch->node1/nic0 at 75%"
    assert layout.legend.title.text.startswith("load of a test, which takes 100 s<br>")
    assert "share of the link's rate while in use" in layout.legend.title.text.replace("<br>", " ")


def test_of_many_nodes_the_first_few_are_drawn_and_it_says_so():
    made = cluster(65, "single-gpu")
    figure = topology_figure(made, loads_of(made, **{"node64/nic0->switch": 0.9}))
    below = figure.layout.title.subtitle.text.replace("<br>", " ")
    assert "only the first 16 nodes are drawn" in below
    assert "busiest: node64/nic0->switch at 90%" in figure.layout.title.subtitle.text
    # The names that have room, in short.
    assert [note.text for note in figure.layout.annotations] == [str(i) for i in range(0, 16, 3)]
    assert (
        "only"
        not in topology_figure(
            cluster(64, "single-gpu"), loads_of(cluster(64, "single-gpu"))
        ).layout.title.subtitle.text
    )


def test_of_more_than_a_few_nodes_each_is_one_glyph_in_the_colour_of_its_busiest_link():
    made = cluster(16)
    name = next(
        made.link_name(link)
        for link in range(len(made.capacities))
        if made.link_name(link).startswith("node3/gpu0->")
    )
    figure = topology_figure(made, loads_of(made, **{name: 0.6, "node5/nic0->switch": 0.9}))
    (glyphs,) = [trace for trace in figure.data if (trace.name or "").startswith("node, by")]
    assert len(glyphs.x) == 16
    assert [round(share, 6) for share in glyphs.marker.color] == [
        0.6 if i == 3 else 0.0 for i in range(16)
    ]
    assert glyphs.hovertext[3] == f"<b>node3</b>: 8 GPUs<br>busiest link inside: {name} at 60%"
    assert len(hovers(figure)) == 16
    assert max(hovers(figure).values(), key=lambda each: each[1])[1] == pytest.approx(0.9)


def test_what_stands_close_to_each_other_is_smaller_and_its_links_are_narrower():
    loaded = {"node0/nic0->switch": 0.5}
    few, many = cluster(3), cluster(32)
    few, many = (topology_figure(made, loads_of(made, **loaded)) for made in (few, many))

    def marks(figure):
        (glyphs,) = [trace for trace in figure.data if (trace.name or "").startswith("node, by")]
        return glyphs.marker.size

    def widest(figure):
        return max(width for _, width, _ in line_styles(figure))

    assert marks(many) < marks(few)
    assert widest(many) < widest(few)


@pytest.mark.parametrize("node", list(nodes()))
def test_devices_never_stand_on_one_another_and_nodes_never_overlap(node):
    made = cluster(3, node, fabric="leaf-spine", nodes_per_leaf=2, spines=2)
    graph = made.graph()
    place = layout(graph, 3)
    assert set(place.places) == set(graph)
    assert len({(round(x, 3), round(y, 3)) for x, y in place.places.values()}) == len(graph)
    frames = [place.frames[f"node{i}"] for i in range(3)]
    assert all(left[2] < right[0] for left, right in pairwise(frames))
    for device, (x, y) in place.places.items():
        if "/" in device:
            left, bottom, right, top = place.frames[device.split("/")[0]]
            assert left < x < right
            assert bottom < y < top
    tops = max(top for *_, top in frames)
    assert all(y > tops for device, (_, y) in place.places.items() if "/" not in device)
    assert place.places["spine0"][1] > place.places["leaf0"][1]


@pytest.mark.parametrize(
    "fabric",
    [
        "single-switch",
        "leaf-spine",
        "fat-tree",
        "rail-optimised",
        "torus",
        "ring",
        "full-mesh",
        "dragonfly",
    ],
)
def test_every_fabric_is_drawn_whole_and_apart(fabric):
    made = cluster(8, "dgx1-v100", fabric=fabric)
    graph = made.graph()
    place = layout(graph, 8)
    joined = {device for device in graph if graph.degree(device) > 0}
    assert joined <= set(place.places)
    assert len({(round(x, 3), round(y, 3)) for x, y in place.places.values()}) == len(place.places)
    few = cluster(4, "single-gpu", fabric=fabric)
    assert len(hovers(topology_figure(few, loads_of(few)))) == len(
        {frozenset(edge) for edge in few.graph().edges}
    )


def test_the_ring_loads_each_card_with_twice_its_share():
    job = prepare(load_scenario(QUICKSTART, []))
    found = link_loads(job, 32 * 4096)
    shown = busiest_links(job.cluster, found)
    card = next(link for link in shown if link["link"] == "node0/nic0->switch")
    assert card["bytes"] == 2 * 31 * 4096
    assert card["utilisation"] == pytest.approx(card["bytes"] / card["rate_Bps"] / found.time_s)
    assert [link["utilisation"] for link in shown] == sorted(
        (link["utilisation"] for link in shown), reverse=True
    )


def test_a_step_is_the_sum_of_its_operations():
    job = prepare(load_scenario(QUICKSTART, []))
    parts = [link_loads(job, operation.nbytes) for operation in planned(job, grouped=False)]
    whole = link_loads(job)
    assert whole.time_s == pytest.approx(sum(part.time_s for part in parts))
    assert whole.bytes == pytest.approx(sum(part.bytes for part in parts))
    assert "5 operations (ring/Simple)" in whole.what


@pytest.fixture
def dpsim(dpsim):
    """Runs `dpsim topology`; answers exit code, stdout and stderr."""

    return lambda *args: dpsim("topology", *args)


def test_the_page_needs_nothing_else(dpsim, tmp_path):
    page = tmp_path / "out.html"
    code, out, err = dpsim(QUICKSTART, "--html", page, "--collective-bytes", "100MB")
    assert (code, out, err) == (0, "", f"wrote {page}\n")
    text = page.read_text()
    assert re.search(r"<script[^>]*\ssrc=", text) is None
    assert re.search(r"one operation of 100 MB \(ring.{1,8}Simple\)", text)
    assert [path.name for path in tmp_path.iterdir()] == ["out.html"]


def test_without_a_page_it_prints_the_most_loaded_links(dpsim):
    code, out, _ = dpsim(QUICKSTART, "--top", "3")
    assert code == 0
    assert re.search(r"node\d/nic0->switch .* 2\.938 GB/s .* 198\.\d MB .* 8\d\.\d%", out)
    assert len([line for line in out.splitlines() if "->" in line]) == 3


def test_json_has_the_documented_keys(dpsim):
    code, out, _ = dpsim(QUICKSTART, "--json", "--top", "2", "--collective-bytes", "1M")
    answer = json.loads(out)
    assert code == 0
    assert list(answer) == ["schema_version", "kind", *documented_keys("dpsim topology")]
    assert [list(link) for link in answer["links"]] == [
        ["link", "rate_Bps", "bytes", "utilisation"]
    ] * 2
    assert answer["links_loaded"] <= answer["links_total"]


def test_one_worker_sends_nothing(dpsim):
    code, out, _ = dpsim(
        QUICKSTART, "--json", "--set", "cluster.nodes=1", "--set", "cluster.gpus_per_node=1"
    )
    answer = json.loads(out)
    assert (code, answer["links"], answer["what"]) == (0, [], "no communication: one worker")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["--html", "/nowhere/at/all/out.html"],
            "the folder /nowhere/at/all must exist, but does not",
        ),
        (["--html", "/tmp"], "/tmp: must be a file, but is a folder"),
        (["--collective-bytes", "0"], "--collective-bytes: must be above 0, but got '0'"),
        (["--collective-bytes", "5 apples"], "--collective-bytes: must be an amount of data"),
    ],
)
def test_bad_usage_is_code_2(dpsim, arguments, message):
    code, out, err = dpsim(QUICKSTART, *arguments)
    assert (code, out) == (2, "")
    assert message in err
