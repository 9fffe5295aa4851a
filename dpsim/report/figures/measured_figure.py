"""Predicted against measured values, a point for each case; correct ones are on the diagonal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dpsim.report.figures.style import COLOURS, marker_of, styled
from dpsim.report.theme import COLOUR, FAINT

if TYPE_CHECKING:
    import plotly.graph_objects as go

_OFF = 1.25  # the band's factor
_OUTSIDE, _FAR = "outside its interval", "over 25 % off, without an interval"
_MISSED = {
    _OUTSIDE: {"color": COLOUR["vermilion"], "symbol": "x", "opacity": 0.9},
    _FAR: {"color": COLOUR["vermilion"], "symbol": "x-thin-open", "opacity": 0.9},
}


class Pair(NamedTuple):
    """A case by name, with its measured and predicted value.

    ``low`` and ``high`` are the interval for the measured value, if it is known.
    """

    name: str
    measured: float
    predicted: float
    low: float | None = None
    high: float | None = None

    @property
    def missed(self) -> str:
        """How the case misses: outside its interval, or far off without one; empty otherwise."""
        if self.low is None or self.high is None:
            is_near = 1 / _OFF <= self.predicted / self.measured <= _OFF
            return "" if is_near else _FAR
        return "" if self.low <= self.measured <= self.high else _OUTSIDE


def measured_figure(
    groups: Mapping[str, Sequence[Pair]], what: str, unit: str, title: str
) -> go.Figure:
    """Draw the pairs of each group; times on logarithmic axes, shares (no ``unit``) on linear ones.

    The band is within 25 %. Intervals are vertical lines; points outside theirs have another mark.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    every = [pair for pairs in groups.values() for pair in pairs]
    values = [value for pair in every for value in (pair.measured, pair.predicted) if value > 0]
    if values:
        # A factor instead of a distance, since axes of times are logarithmic.
        _add_band(figure, min(values) / 1.3, max(values) * 1.3)

    for number, (name, pairs) in enumerate(groups.items()):
        look = marker_of(number, color=COLOURS[number % len(COLOURS)], opacity=0.7)
        right = [pair for pair in pairs if not pair.missed]
        figure.add_scatter(**_points(f"{name} ({len(pairs):,})", right, unit, look))
    # Drawn last, on top of correct ones.
    missed: dict[str, list[Pair]] = {}
    for pair in every:
        if pair.missed:
            missed.setdefault(pair.missed, []).append(pair)
    for words, pairs in sorted(missed.items()):
        figure.add_scatter(**_points(f"{words} ({len(pairs):,})", pairs, unit, _MISSED[words]))

    # As 10 ms instead of a power of ten of seconds.
    log = {"type": "log", "tickformat": "~s", "ticksuffix": unit, "dtick": 1}
    axis = log if unit else {"tickformat": ".0%"}
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return styled(figure, title, f"measured {what}", f"predicted {what}")


def _add_band(figure: go.Figure, low: float, high: float) -> None:
    """Draw the line on which predictions equal measurements, and the band around it."""
    ends, rising = [low, high], [low * _OFF, high * _OFF]
    # A closed outline: up along the upper edge, and back along the lower.
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
        name="as measured",
        line={"dash": "dash", "width": 1, "color": COLOUR["grey"]},
        hoverinfo="skip",
    )


def _points(
    name: str, pairs: Sequence[Pair], unit: str, look: Mapping[str, object]
) -> dict[str, object]:
    form = ".4g" if unit else ".1%"
    where = f"measured %{{x:{form}}} {unit}, predicted %{{y:{form}}} {unit}"
    return {
        "x": [pair.measured for pair in pairs],
        "y": [pair.predicted for pair in pairs],
        "error_y": _intervals(pairs),
        "text": [_hover_text(pair, unit) for pair in pairs],
        "hovertemplate": f"%{{text}}<br>{where}<extra></extra>",
        "mode": "markers",
        "name": name,
        "marker": {"size": 7, **look},
    }


def _hover_text(pair: Pair, unit: str) -> str:
    text = f"{pair.name}<br>{pair.predicted / pair.measured - 1:+.1%}"
    if pair.low is None or pair.high is None:
        return text
    return f"{text}, interval {pair.low:.4g} to {pair.high:.4g} {unit}"


def _intervals(pairs: Sequence[Pair]) -> dict[str, object] | None:
    """Return the error bars from predictions to the ends of their intervals; None without any."""
    if all(pair.low is None for pair in pairs):
        return None
    return {
        "type": "data",
        "symmetric": False,
        # plotly expects lengths from the point, which is the prediction.
        "array": [0.0 if pair.high is None else pair.high - pair.predicted for pair in pairs],
        "arrayminus": [0.0 if pair.low is None else pair.predicted - pair.low for pair in pairs],
        "width": 0,
        "thickness": 0.7,
    }
