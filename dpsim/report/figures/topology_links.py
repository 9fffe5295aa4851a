"""Links in the picture of a cluster: lines coloured by utilisation, as wide as their traffic."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from plotly.colors import sample_colorscale

from dpsim.base.units import DATA, RATE, human
from dpsim.engine import LinkLoads
from dpsim.report.figures.topology_layout import Graph, Layout, Point, both_directions
from dpsim.report.theme import COLOUR, LOAD
from dpsim.topology import Cluster

SCALE = [[step / (len(LOAD) - 1), colour] for step, colour in enumerate(LOAD)]
_SHADES = 10
_WIDTHS = (1.5, 3.0, 5.0, 7.5)  # pixels
_DEEPEST_ARC = 1.4  # less than the room below GPUs, `topology_layout._ARCS`
_UNUSED = COLOUR["grey"]


@dataclass(frozen=True, slots=True)
class Line:
    """A full-duplex link: its ends, its bytes and utilisation in the busier direction."""

    ends: tuple[str, str]
    carried: float
    share: float
    text: str
    points: list[Point]


def lines_of(cluster: Cluster, graph: Graph[str], loads: LinkLoads, place: Layout) -> list[Line]:
    """Return the links whose two ends are drawn, both directions as one line.

    The most used come last, to be on top.
    """
    shares = loads.utilisation(cluster.capacities)
    lines = []
    for a, b, directions in both_directions(graph, place.places):
        ways = [(x, y, graph.edges[x, y]) for x, y in directions]
        text = "<br>".join(_way_text(x, y, data, loads, shares) for x, y, data in ways)
        # Show the busier direction; a mean would show a link full in one direction as half idle.
        numbers = [data["number"] for _, _, data in ways]
        carried = max(float(loads.bytes[number]) for number in numbers)
        share = max(float(shares[number]) for number in numbers)
        up = graph.nodes[a].get("kind") != "gpu"
        points = _curve(place.places[a], place.places[b], up)
        lines.append(Line((a, b), carried, share, text, points))
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
        f"{shares[number]:.0%} of it {loads.over}"
    )


def _curve(a: Point, b: Point, up: bool) -> list[Point]:
    """Return a straight line, or an arc between two devices of a row that are not neighbours.

    The arc is below the row (or above), deeper for longer ones.
    """
    (ax, ay), (bx, by) = a, b
    # Neighbours in a row are 1 apart, within rounding.
    if abs(ay - by) > 1e-9 or abs(ax - bx) < 1.01:
        return [a, ((ax + bx) / 2, (ay + by) / 2), b]
    wide = abs(bx - ax)
    deep = 0.25 * wide**0.5 if up else -min(0.3 * wide**0.8, _DEEPEST_ARC)
    points = []
    for number in range(13):
        t = number / 12
        # The arc is a parabola, with depth 0 at both ends and ``deep`` in the middle.
        points.append((ax + (bx - ax) * t, ay + deep * 4 * t * (1 - t)))
    return points


def link_traces(lines: list[Line], room: float) -> list[dict[str, Any]]:
    """Return one trace for each shade and width in use; gaps separate lines."""
    most = max((line.carried for line in lines), default=0.0)
    # A trace has one colour and one width, and browsers are slow with thousands of traces.
    bins: dict[tuple[int, int], list[Line]] = {}
    for line in lines:
        # Idle links come first, to be below the rest.
        shade, width = -1, 0
        if line.carried > 0:
            shade = min(int(line.share * _SHADES), _SHADES - 1)
            width = min(int(line.carried / most * len(_WIDTHS)), len(_WIDTHS) - 1)
        bins.setdefault((shade, width), []).append(line)
    traces = []
    for (shade, width), alike in sorted(bins.items()):
        look = {"color": _UNUSED, "width": 1.0}
        if shade >= 0:
            (colour,) = sample_colorscale(list(LOAD), [(shade + 0.5) / _SHADES])
            look = {"color": colour, "width": max(1.0, room * _WIDTHS[width])}
        xs, ys = _join(alike)
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


def _join(lines: list[Line]) -> tuple[list[float | None], list[float | None]]:
    xs: list[float | None] = []
    ys: list[float | None] = []
    for line in lines:
        # plotly starts a new line after None, so that one trace can hold all lines.
        xs += [*(x for x, _ in line.points), None]
        ys += [*(y for _, y in line.points), None]
    return xs, ys


def hover_trace(lines: list[Line]) -> dict[str, Any]:
    """Return points in the middle of the links, with hover text and the colour scale."""
    # Lines only have hover text at their points, and no colour scale.
    middles = [line.points[len(line.points) // 2] for line in lines]
    marker = {
        "size": 7,
        "color": [line.share for line in lines],
        "colorscale": SCALE,
        "cmin": 0.0,
        "cmax": 1.0,
        "opacity": [0.9 if line.carried > 0 else 0.0 for line in lines],
        "colorbar": {
            # The scale's title is above the legend, because beside it a phone has no room.
            "tickformat": ".0%",
            "len": 0.7,
            "thickness": 12,
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
