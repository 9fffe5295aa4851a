"""A cluster drawn as one device of each kind, with links coloured by the busiest of each class."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import plotly.graph_objects as go
from plotly.colors import sample_colorscale

from dpsim.base.units import RATE, human
from dpsim.engine import LinkClass
from dpsim.report.figures.style import set_style
from dpsim.report.figures.topology_layout import TITLES
from dpsim.report.theme import LOAD

# In a node, from the fabric down; other kinds are tiers of the fabric.
_INSIDE = ("nic", "cpu", "pcie-switch", "gpu")
_BESIDE = "nvswitch"  # beside the GPUs it connects
_SIDE = 1.0
_THIN, _THICK = 2.0, 12.0  # pixels
_ROW = 58  # pixels
_GAP = "\u2002"  # between a line and its number


def load_map_figure(classes: Sequence[LinkClass]) -> go.Figure:
    """Draw a cluster's classes of links (`link_classes`) with the share of the busiest of each.

    Links between devices of one kind are drawn beside that kind.
    """
    places = _places(classes)
    figure = go.Figure()
    # Draw the busiest class last, on top.
    for each in sorted(classes, key=lambda each: each.share):
        figure.add_scatter(**_line(each, places))
    ends = [*places.items()]
    for each in classes:
        kind, other = each.ends
        # A link between two devices of one kind needs a second mark of that kind.
        if kind == other:
            x, y = places[kind]
            ends.append((kind, (x + _SIDE, y)))
    figure.add_scatter(
        x=[x for _, (x, _) in ends],
        y=[y for _, (_, y) in ends],
        text=[TITLES.get(kind, kind) for kind, _ in ends],
        mode="markers+text",
        textposition=["middle left" if x == 0 else "bottom center" for _, (x, _) in ends],
        marker={"size": 11, "symbol": "square", "color": LOAD[0]},
        hoverinfo="skip",
        cliponaxis=False,
    )
    title = _title(classes)
    rows = len({y for _, y in places.values()})
    axes = {
        "xaxis": {"visible": False, "range": [-0.9, 2.1], "fixedrange": True},
        "yaxis": {"visible": False, "fixedrange": True},
    }
    height = 110 + _ROW * max(rows, 2)
    return set_style(figure, title, "", "", showlegend=False, height=height, **axes)


def _title(classes: Sequence[LinkClass]) -> str:
    if not classes or classes[0].share <= 0:
        return "Load of the links<br><sub>no traffic</sub>"
    busiest = classes[0]
    one, other = (TITLES.get(end, end) for end in busiest.ends)
    meaning = "share of its rate over the step, of the busiest link of a kind"
    return f"Busiest link: {one} to {other}, {busiest.share:.0%}<br><sub>{meaning}</sub>"


def _places(classes: Sequence[LinkClass]) -> dict[str, tuple[float, float]]:
    """Return each kind of device's place: the fabric on top, GPUs at the bottom."""
    kinds = list(dict.fromkeys(kind for each in classes for kind in each.ends))
    tiers = _tiers(classes, [kind for kind in kinds if kind not in (*_INSIDE, _BESIDE)])
    adjacent = {_BESIDE: "gpu"}
    # If cards are attached to the switches of GPUs, traffic bypasses the processors.
    if any({*each.ends} == {"nic", "pcie-switch"} for each in classes):
        adjacent["cpu"] = "pcie-switch"
    inside = [kind for kind in _INSIDE if kind in kinds and kind not in adjacent]
    column = [*reversed(tiers), *inside]
    places = {kind: (0.0, -float(row)) for row, kind in enumerate(column)}
    for kind, neighbour in adjacent.items():
        if kind in kinds:
            _, height = places[neighbour]
            places[kind] = (_SIDE, height)
    return places


def _tiers(classes: Sequence[LinkClass], fabric: Sequence[str]) -> list[str]:
    """Return the kinds of switches by their hops from the network cards, the nearest first."""
    tiers: list[str] = []
    reached = {"nic"}
    while len(tiers) < len(fabric):
        rest = [kind for kind in fabric if kind not in tiers]
        adjacent = {end for each in classes if reached & {*each.ends} for end in each.ends}
        # Kinds without a link to a reached kind come last.
        tiers += [kind for kind in rest if kind in adjacent] or rest
        reached.update(tiers)
    return tiers


def _line(each: LinkClass, places: dict[str, tuple[float, float]]) -> dict[str, Any]:
    """Return one class as a line with its share in the middle."""
    one, other = each.ends
    (x0, y0), (x1, y1) = places[one], places[other]
    if one == other:
        x1 = x0 + _SIDE
    share = min(each.share, 1.0)
    (colour,) = sample_colorscale(list(LOAD), [share])
    level = y0 == y1
    title = f"{TITLES.get(one, one)} to {TITLES.get(other, other)}"
    text = (
        f"<b>{title}</b><br>{each.links:,} links, the busiest {human(each.rate, RATE)}<br>"
        f"{each.busiest}: {each.share:.1%} of its rate over the step, all {each.mean:.1%}"
    )
    return {
        "x": [x0, (x0 + x1) / 2, x1],
        "y": [y0, (y0 + y1) / 2, y1],
        "mode": "lines+markers+text",
        # An extra middle point carries the number and the hover text.
        "marker": {"size": [0, 1, 0], "color": colour},
        "line": {"color": colour, "width": _THIN + (_THICK - _THIN) * share},
        "text": ["", f"{_GAP}<b>{each.share:.0%}</b>  {human(each.rate, RATE, 3)}", ""],
        "textposition": "top center" if level else "middle right",
        "hovertext": text,
        "hovertemplate": "%{hovertext}<extra></extra>",
    }
