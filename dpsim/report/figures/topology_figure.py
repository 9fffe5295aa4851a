"""A picture of a cluster: devices, and links coloured by utilisation, as wide as their traffic."""

from __future__ import annotations

import re
from math import ceil
from typing import Any

import networkx as nx
import numpy as np
import plotly.graph_objects as go

from dpsim.base.units import TIME, human, plural
from dpsim.engine import LinkLoads, busiest_links
from dpsim.report.figures.style import set_style, wrapped
from dpsim.report.figures.topology_layout import TITLES, Graph, Layout, layout, node_of
from dpsim.report.figures.topology_links import SCALE, hover_trace, lines_of, link_traces
from dpsim.report.theme import COLOUR, FAINT, LINE
from dpsim.topology import Cluster

MOST_NODES = 64  # with more, only the first few are drawn
FEW_NODES = 16
MOST_DETAILED = 16  # GPUs; with more, each node is one glyph

_GLYPH = "node"  # the glyph for all devices of a node
_LINE = 48  # letters of a line of the title
_MARKERS = {
    "gpu": ("square", COLOUR["blue"], 15),
    "nvswitch": ("hexagon", COLOUR["bluish green"], 17),
    "pcie-switch": ("diamond", COLOUR["grey"], 13),
    "cpu": ("square", COLOUR["vermilion"], 15),
    "nic": ("triangle-up", COLOUR["reddish purple"], 12),
}
_MOST_NAMES = 6  # of nodes, side by side on a narrow page
_MOST_LETTERS = 30  # of the names of a row of switches
_CROWDED = ("gpu", "pcie-switch")  # devices so close to each other that their names need room
_SWITCH = ("circle", COLOUR["orange"], 17)
_ROOMY = 12  # devices side by side whose marks and names do not touch on a phone
_SMALLEST = 8  # pixels of the smallest mark


def topology_figure(cluster: Cluster, loads: LinkLoads, name: str = "") -> go.Figure:
    """Draw ``cluster`` under ``loads``.

    With more than 64 nodes only the first 16 are drawn, and the title says so.
    """
    graph, shares = cluster.graph(), loads.utilisation(cluster.capacities)
    nodes = len({node_of(device) for device in graph} - {None})
    drawn = nodes if nodes <= MOST_NODES else FEW_NODES
    # The number of drawn GPUs is ranks * drawn / nodes; multiplied out, it stays in integers.
    if drawn > 1 and drawn * cluster.ranks > MOST_DETAILED * nodes:
        graph = _as_glyphs(cluster, graph, shares)

    place = layout(graph, drawn)
    lines = lines_of(cluster, graph, loads, place)

    figure = go.Figure()
    for trace in link_traces(lines, _room(place, list(place.places))):
        figure.add_trace(go.Scatter(**trace))
    figure.add_trace(go.Scatter(**hover_trace(lines)))
    for trace in _device_traces(graph, place, drawn):
        figure.add_trace(go.Scatter(**trace))
    _frames(figure, place)

    hidden = {"xaxis": {"visible": False}, "yaxis": {"visible": False}}
    title = _title(name, cluster, loads, nodes, drawn)
    set_style(figure, title, "", "", hovermode="closest", **hidden)
    how_to_read = {"text": _how_to_read(loads), "side": "top", "font": {"size": 12}}
    return figure.update_layout(legend_title=how_to_read)


def _as_glyphs(
    cluster: Cluster, graph: Graph[str], shares: np.ndarray[Any, np.dtype[np.float64]]
) -> Graph[str]:
    """Return ``graph`` with one device for each node, at the place of its network cards.

    The busiest link between a node and a switch represents all of them; the busiest link inside a
    node represents its inside.
    """
    whole: Graph[str] = nx.DiGraph()
    for device, data in graph.nodes(data=True):
        node = node_of(device)
        if node is None:
            whole.add_node(device, **data)
        # The kind of a network card, by which the layout finds the tiers of the fabric.
        elif f"{node}/{_GLYPH}" not in whole:
            whole.add_node(f"{node}/{_GLYPH}", kind="nic", glyph=True, inside=0.0, gpus=0, about="")
        if node is not None and data.get("kind") == "gpu":
            whole.nodes[f"{node}/{_GLYPH}"]["gpus"] += 1
    for a, b, data in graph.edges(data=True):
        share = float(shares[data["number"]])
        one, other = (end if node_of(end) is None else f"{node_of(end)}/{_GLYPH}" for end in (a, b))
        if one == other:
            inside = whole.nodes[one]
            # ">=" names a link even if nothing is sent.
            if share >= inside["inside"]:
                inside |= {"inside": share, "about": cluster.link_name(data["number"])}
        elif not whole.has_edge(one, other) or share > shares[whole.edges[one, other]["number"]]:
            whole.add_edge(one, other, **data)
    return whole


def _device_traces(graph: Graph[str], place: Layout, drawn: int) -> list[dict[str, Any]]:
    """Return a trace for each kind of device; of many nodes they are smaller and without names."""
    kinds: dict[str, list[str]] = {}
    for device in place.places:
        kind = graph.nodes[device].get("kind", "other")
        if node_of(device) is None:
            kind = "switch"
        elif graph.nodes[device].get("glyph"):
            kind = _GLYPH
        kinds.setdefault(kind, []).append(device)
    traces = []
    for kind, devices in kinds.items():
        if kind == _GLYPH:
            traces.append(_glyphs(graph, place, devices))
            continue
        symbol, colour, size = _MARKERS.get(kind, _SWITCH)
        shown = kind == "switch" or drawn <= (1 if kind in _CROWDED else 2)
        named = _with_room(place, devices) if kind == "switch" else devices
        traces.append(
            {
                "x": [place.places[device][0] for device in devices],
                "y": [place.places[device][1] for device in devices],
                "mode": "markers+text" if shown else "markers",
                "text": [
                    device.rpartition("/")[2] if device in named else "" for device in devices
                ],
                "textposition": "top center"
                if kind in ("switch", "nic", "cpu")
                else "bottom center",
                "textfont": {"size": 10},
                "marker": {
                    "symbol": symbol,
                    "color": colour,
                    "size": _size(size, place, devices),
                    "line": {"width": 0},
                },
                "hovertext": devices,
                "hovertemplate": "%{hovertext}<extra></extra>",
                "name": TITLES.get(kind, kind),
            }
        )
    return traces


def _glyphs(graph: Graph[str], place: Layout, nodes: list[str]) -> dict[str, Any]:
    """Return nodes as squares in the colour of their busiest link."""
    data = [graph.nodes[node] for node in nodes]
    about = [
        f"<b>{node_of(node)}</b>: {each['gpus']} GPUs<br>busiest link inside: {each['about']} at "
        f"{each['inside']:.0%}"
        for node, each in zip(nodes, data, strict=True)
    ]
    return {
        "x": [place.places[node][0] for node in nodes],
        "y": [place.places[node][1] for node in nodes],
        "mode": "markers",
        "marker": {
            "symbol": "square",
            "size": _size(18, place, nodes),
            "color": [each["inside"] for each in data],
            "colorscale": SCALE,
            "cmin": 0.0,
            "cmax": 1.0,
        },
        "hovertext": about,
        "hovertemplate": "%{hovertext}<extra></extra>",
        "name": "node, by its busiest link inside",
    }


def _size(most: float, place: Layout, devices: list[str]) -> float:
    """Return the size of the marks of ``devices`` in pixels, smaller if they are close together."""
    return max(_SMALLEST, most * _room(place, devices))


def _room(place: Layout, devices: list[str]) -> float:
    """Return the factor by which ``devices`` must shrink to have room on a phone."""
    rows: dict[float, list[float]] = {}
    for device in devices:
        x, y = place.places[device]
        rows.setdefault(y, []).append(x)
    gaps = [gap for row in rows.values() for gap in np.diff(sorted(row))]
    # The number of devices that fit across the picture at the smallest gap between two.
    across = _width(place) / min(gaps) + 1 if gaps else 1.0
    return min(1.0, _ROOMY / across)


def _width(place: Layout) -> float:
    xs = [x for x, _ in place.places.values()]
    return max(xs) - min(xs)


def _with_room(place: Layout, switches: list[str]) -> set[str]:
    """Return the switches of rows whose names have room side by side.

    The others' names show on hover.
    """
    rows: dict[float, list[str]] = {}
    for switch in switches:
        _, height = place.places[switch]
        rows.setdefault(height, []).append(switch)
    named: set[str] = set()
    for row in rows.values():
        if sum(map(len, row)) <= _MOST_LETTERS:
            named.update(row)
    return named


def _frames(figure: go.Figure, place: Layout) -> None:
    shapes, notes = [], []
    # With many nodes only every n-th has its number: names side by side would touch.
    every = ceil(len(place.frames) / _MOST_NAMES)
    lefts = [left for left, _, _, _ in place.frames.values()]
    is_narrow = len(lefts) > 1 and _width(place) > _MOST_NAMES * (lefts[1] - lefts[0])
    for number, (node, (left, bottom, right, top)) in enumerate(place.frames.items()):
        box = {"x0": left, "x1": right, "y0": bottom, "y1": top}
        shapes.append(
            {
                "type": "rect",
                **box,
                "layer": "below",
                "line": {"color": LINE, "width": 1},
                "fillcolor": FAINT,
            }
        )
        if number % every == 0:
            # Shorten node12 to 12.
            in_short = node if not is_narrow else re.sub(r"^\D+(?=\d)", "", node)
            notes.append(
                {
                    "x": left,
                    "y": bottom,
                    "text": in_short,
                    "showarrow": False,
                    "xanchor": "left",
                    "yanchor": "top",
                }
            )
    figure.update_layout(shapes=shapes, annotations=notes)


def _title(name: str, cluster: Cluster, loads: LinkLoads, nodes: int, drawn: int) -> str:
    """Return the title, with the busiest link of all, drawn or not."""
    title = f"{plural(nodes, 'node')}, {cluster.ranks:,} GPUs"
    if drawn < nodes:
        title += f" (only the first {drawn} nodes are drawn)"
    if loads.bytes.any():
        (link,) = busiest_links(cluster, loads, 1)
        title += f"; busiest: {link['link']} at {link['utilisation']:.0%}"
    head = f"{name}: load" if name else "Load"
    return f"{head} of the links<br><sub>{title}</sub>"


def _how_to_read(loads: LinkLoads) -> str:
    took = f", which takes {human(loads.time_s, TIME)}" if loads.time_s > 0 else ""
    lines = [
        f"load of {loads.what}{took}",
        f"colour: share of the link's rate {loads.over}; width: bytes, of the busier direction",
    ]
    return "<br>".join(wrapped(line, _LINE) for line in lines)
