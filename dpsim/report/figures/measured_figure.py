"""Predicted against measured, a point for each case: on the line the prediction is right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dpsim.report.figures.style import COLOURS, SYMBOLS, styled
from dpsim.report.theme import COLOUR, FAINT

if TYPE_CHECKING:
    import plotly.graph_objects as go

_OFF = 1.25  # the band


class Pair(NamedTuple):
    """One case: what it is called, and the same quantity measured and predicted."""

    name: str
    measured: float
    predicted: float


def measured_figure(
    groups: Mapping[str, Sequence[Pair]], what: str, unit: str, title: str
) -> go.Figure:
    """The pairs of each group; times on logarithmic axes, shares (``unit`` empty) on linear ones.

    The band is within 25 %.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    every = [
        value
        for pairs in groups.values()
        for pair in pairs
        for value in (pair.measured, pair.predicted)
        if value > 0
    ]
    if every:
        low, high = min(every) / 1.3, max(every) * 1.3
        ends, rising = [low, high], [low * _OFF, high * _OFF]
        band = {
            "x": [*ends, *ends[::-1]],
            "y": [*rising, high / _OFF, low / _OFF],
            "fill": "toself",
            "mode": "none",
        }
        figure.add_scatter(**band, name="within 25 %", fillcolor=FAINT, hoverinfo="skip")
        figure.add_scatter(
            x=ends,
            y=ends,
            mode="lines",
            name="right",
            line={"dash": "dash", "width": 1, "color": COLOUR["grey"]},
            hoverinfo="skip",
        )
    for number, (name, pairs) in enumerate(groups.items()):
        figure.add_scatter(**_points(number, name, pairs, unit))
    axis = {"type": "log", "exponentformat": "power"} if unit else {"tickformat": ".0%"}
    label = f" ({unit})" if unit else ""
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return styled(figure, title, f"measured {what}{label}", f"predicted {what}{label}")


def _points(number: int, name: str, pairs: Sequence[Pair], unit: str) -> dict[str, object]:
    form = ".4g" if unit else ".1%"
    where = f"measured %{{x:{form}}} {unit}, predicted %{{y:{form}}} {unit}"
    return {
        "x": [pair.measured for pair in pairs],
        "y": [pair.predicted for pair in pairs],
        "text": [f"{pair.name}<br>{pair.predicted / pair.measured - 1:+.1%}" for pair in pairs],
        "hovertemplate": f"%{{text}}<br>{where}<extra></extra>",
        "mode": "markers",
        "name": f"{name} ({len(pairs):,})",
        "marker": {
            "color": COLOURS[number % len(COLOURS)],
            "symbol": SYMBOLS[number % len(SYMBOLS)],
            "size": 7,
            "opacity": 0.6,
        },
    }
