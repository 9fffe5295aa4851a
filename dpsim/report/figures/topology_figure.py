"""A cluster as a picture.

Devices and links, each link coloured by how much of its rate is used and as wide as what it
carries.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Any

import numpy as np

from dpsim.base.units import DATA, RATE, TIME, human
from dpsim.engine import LinkLoads, busiest_links
from dpsim.report.figures.style import wrapped
from dpsim.report.figures.topology_layout import Graph, Layout, Point, layout, node_of
from dpsim.report.theme import COLOUR, FAINT, LINE, template
from dpsim.topology import Cluster

if TYPE_CHECKING:
    import plotly.graph_objects as go

MOST_NODES = 64  # with more, only the first few are drawn
FEW_NODES = 16
FEW_DETAILED = 8  # with more, lines are thinner and devices smaller

_SCALE = "Cividis"  # told apart by people with any kind of colour vision, and in grey
_SHADES = 10
_WIDTHS = (1.5, 3.0, 5.0, 7.5)  # pixels
_DEEPEST_ARC = 1.4
_LINE = 62  # letters of a line of the title
_UNUSED = COLOUR["grey"]
_MARKERS = {
    "gpu": ("square", COLOUR["blue"], 15),
    "nvswitch": ("hexagon", COLOUR["bluish green"], 17),
    "pcie-switch": ("diamond", COLOUR["grey"], 13),
    "cpu": ("square", COLOUR["vermilion"], 15),
    "nic": ("triangle-up", COLOUR["reddish purple"], 12),
}
_MOST_NAMES = 6  # of nodes, side by side on a narrow page
_MOST_LETTERS = 30  # of the names of a row of switches
_CROWDED = ("gpu", "pcie-switch")  # so near to each other that their names need room
_SWITCH = ("circle", COLOUR["orange"], 17)


@dataclass(frozen=True, slots=True)
class _Line:
    """One full-duplex link.

    Its two ends, what it carries each way (bytes), and the share of the busier way.
    """

    ends: tuple[str, str]
    carried: float
    share: float
    text: str
    points: list[Point]


def topology_figure(cluster: Cluster, loads: LinkLoads, name: str = "") -> go.Figure:
    """The picture of ``cluster`` under ``loads``.

    Of more than 64 nodes it shows the first 16 and says so.
    """
    import plotly.graph_objects as go

    graph = cluster.graph()
    nodes = len({node_of(device) for device in graph} - {None})
    drawn = nodes if nodes <= MOST_NODES else FEW_NODES
    place = layout(graph, drawn)
    lines = _lines(cluster, graph, loads, place)
    highest = (
        ceil(max((line.share for line in lines), default=0.0) * _SHADES - 1e-9) / _SHADES or 1.0
    )
    figure = go.Figure()
    for trace in _link_traces(lines, highest, 1.0 if drawn <= FEW_DETAILED else 0.5):
        figure.add_trace(go.Scatter(**trace))
    figure.add_trace(go.Scatter(**_hover_trace(lines, highest, 7 if drawn <= FEW_DETAILED else 4)))
    for trace in _device_traces(graph, place, drawn):
        figure.add_trace(go.Scatter(**trace))
    _frames(figure, place)
    title = _title(name, cluster, loads, nodes, drawn)
    figure.update_layout(
        title={"text": title, "x": 0.01, "xanchor": "left", "y": 0.97, "yanchor": "top"},
        template=template(),
        margin={"l": 20, "r": 20, "t": 65 + 20 * title.count("<br>"), "b": 20},
        xaxis={"visible": False},
        yaxis={"visible": False},
        legend={"orientation": "h", "x": 0.0, "y": 0.0, "yanchor": "top"},
        hovermode="closest",
    )
    return figure


def _lines(cluster: Cluster, graph: Graph[str], loads: LinkLoads, place: Layout) -> list[_Line]:
    """The links whose two ends are drawn, both directions as one line.

    The most used come last, so that they lie on top.
    """
    shares = loads.utilisation(cluster.capacities)
    lines = []
    seen = set()
    for a, b in graph.edges:
        if (b, a) in seen or a not in place.places or b not in place.places:
            continue
        seen.add((a, b))
        ways = [(x, y, graph.edges[x, y]) for x, y in ((a, b), (b, a)) if graph.has_edge(x, y)]
        text = "<br>".join(_way_text(x, y, data, loads, shares) for x, y, data in ways)
        # The busier direction: a mean would show a link full one way as half idle.
        numbers = [data["number"] for _, _, data in ways]
        carried = max(float(loads.bytes[number]) for number in numbers)
        share = max(float(shares[number]) for number in numbers)
        up = graph.nodes[a].get("kind") != "gpu"
        points = _curve(place.places[a], place.places[b], up)
        lines.append(_Line((a, b), carried, share, text, points))
    return sorted(lines, key=lambda line: line.share)


def _way_text(
    a: str,
    b: str,
    data: dict[str, Any],
    loads: LinkLoads,
    shares: np.ndarray[Any, np.dtype[np.float64]],
) -> str:
    number = data["number"]
    count = f"{data['count']} x " if data.get("count", 1) > 1 else ""
    kind = f" ({count}{data['link']})" if "link" in data else ""
    return (
        f"<b>{a} → {b}</b>{kind}<br>rate {human(data['capacity'], RATE)}, load "
        f"{human(float(loads.bytes[number]), DATA, 3)}, "
        f"utilisation {shares[number]:.0%}"
    )


def _curve(a: Point, b: Point, up: bool) -> list[Point]:
    """A straight line, or an arc between two devices of one row that are not neighbours.

    The arc lies below it (or above), longer ones deeper.
    """
    (ax, ay), (bx, by) = a, b
    if abs(ay - by) > 1e-9 or abs(ax - bx) < 1.01:
        return [a, ((ax + bx) / 2, (ay + by) / 2), b]
    wide = abs(bx - ax)
    deep = 0.25 * wide**0.5 if up else -min(0.3 * wide**0.8, _DEEPEST_ARC)
    points = []
    for number in range(13):
        t = number / 12
        # A parabola: nothing at both ends, all of the depth in the middle.
        points.append((ax + (bx - ax) * t, ay + deep * 4 * t * (1 - t)))
    return points


def _link_traces(lines: list[_Line], highest: float, scale: float) -> list[dict[str, Any]]:
    """One trace for each shade and width that occurs; gaps separate lines.

    ``highest`` is the darkest shade's share.
    """
    from plotly.colors import sample_colorscale

    most = max((line.carried for line in lines), default=0.0)
    # A trace has one colour and one width, and a browser is slow with thousands of traces.
    bins: dict[tuple[int, int], list[_Line]] = {}
    for line in lines:
        shade, width = -1, 0
        if line.carried > 0:
            shade = min(int(line.share / highest * _SHADES), _SHADES - 1)
            width = min(int(line.carried / most * len(_WIDTHS)), len(_WIDTHS) - 1)
        bins.setdefault((shade, width), []).append(line)
    traces = []
    for (shade, width), alike in sorted(bins.items()):
        look = {"color": _UNUSED, "width": 1.0}
        if shade >= 0:
            (colour,) = sample_colorscale(_SCALE, [_reversed((shade + 0.5) / _SHADES)])
            look = {"color": colour, "width": scale * _WIDTHS[width]}
        xs, ys = _joined(alike)
        traces.append(
            {
                "x": xs,
                "y": ys,
                "mode": "lines",
                "line": look,
                "hoverinfo": "skip",
                "showlegend": False,
            }
        )
    return traces


def _reversed(share: float) -> float:
    """Dark is busy: on a white page pale yellow would hide the links that matter."""
    return 1.0 - share


def _joined(lines: list[_Line]) -> tuple[list[float | None], list[float | None]]:
    xs: list[float | None] = []
    ys: list[float | None] = []
    for line in lines:
        xs += [*(x for x, _ in line.points), None]
        ys += [*(y for _, y in line.points), None]
    return xs, ys


def _hover_trace(lines: list[_Line], highest: float, size: int) -> dict[str, Any]:
    """Points in the middle of the links that answer the pointer, and carry the scale of colours."""
    # Lines answer the pointer at their points alone, and have no scale of colours.
    middles = [line.points[len(line.points) // 2] for line in lines]
    marker = {
        "size": size,
        "color": [line.share for line in lines],
        "colorscale": f"{_SCALE}_r",
        "cmin": 0.0,
        "cmax": highest,
        "opacity": [0.9 if line.carried > 0 else 0.0 for line in lines],
        "colorbar": {
            "title": {"text": "share of the link's rate", "side": "right"},
            "tickformat": ".0%",
            "len": 0.7,
            "thickness": 14,
        },
    }
    return {
        "x": [x for x, _ in middles],
        "y": [y for _, y in middles],
        "mode": "markers",
        "marker": marker,
        "text": [line.text for line in lines],
        "hovertemplate": "%{text}<extra></extra>",
        "name": "links",
        "showlegend": False,
    }


def _device_traces(graph: Graph[str], place: Layout, drawn: int) -> list[dict[str, Any]]:
    """The devices, a trace for each kind; of many nodes they are smaller and without names."""
    kinds: dict[str, list[str]] = {}
    for device in place.places:
        kind = graph.nodes[device].get("kind", "other")
        if node_of(device) is None:
            kind = "switch"
        kinds.setdefault(kind, []).append(device)
    traces = []
    for kind, devices in kinds.items():
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
                    "size": size if drawn <= FEW_DETAILED or kind == "switch" else size / 2,
                    "line": {"width": 0},
                },
                "hovertext": devices,
                "hovertemplate": "%{hovertext}<extra></extra>",
                "name": kind,
            }
        )
    return traces


def _with_room(place: Layout, switches: list[str]) -> set[str]:
    """The switches of rows whose names have room side by side.

    The others' names show under the pointer.
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
    every = ceil(len(place.frames) / _MOST_NAMES)
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
            notes.append(
                {
                    "x": left,
                    "y": bottom,
                    "text": node,
                    "showarrow": False,
                    "xanchor": "left",
                    "yanchor": "top",
                }
            )
    figure.update_layout(shapes=shapes, annotations=notes)


def _title(name: str, cluster: Cluster, loads: LinkLoads, nodes: int, drawn: int) -> str:
    """What is shown, how to read it, and which link is the busiest of all, drawn or not."""
    busiest = ""
    if loads.bytes.any():
        (link,) = busiest_links(cluster, loads, 1)
        busiest = f"; busiest: {link['link']} at {link['utilisation']:.0%}"
    head = f"{name}: load" if name else "Load"
    size = f"{nodes:,} node{'s' if nodes > 1 else ''}, {cluster.ranks:,} GPUs"
    if drawn < nodes:
        size += f" (<b>only the first {drawn} nodes are drawn</b>)"
    took = f", which takes {human(loads.time_s, TIME)}" if loads.time_s > 0 else ""
    lines = [
        f"under {loads.what}{took}",
        f"{size}{busiest}",
        "colour: share of the link's rate used in that time",
        "width: bytes carried, of the busier direction; grey: unused",
    ]
    return (
        f"{head} of the links<br><sub>{'<br>'.join(wrapped(line, _LINE) for line in lines)}</sub>"
    )
