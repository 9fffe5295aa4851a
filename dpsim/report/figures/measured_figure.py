"""Predicted against measured values, a point for each case; correct ones are on the diagonal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from dpsim.report.figures.style import COLOURS, marker_of, set_style
from dpsim.report.theme import COLOUR, FAINT

if TYPE_CHECKING:
    import plotly.graph_objects as go

_BAND_FACTOR = 1.25  # predicted / measured at the upper edge of the band
_OUTSIDE_INTERVAL = "outside its interval"
_OUTSIDE_BAND = "over a factor of 1.25 off, without an interval"
_MISS_MARKERS = {
    _OUTSIDE_INTERVAL: {"color": COLOUR["vermilion"], "symbol": "x", "opacity": 0.9},
    _OUTSIDE_BAND: {"color": COLOUR["vermilion"], "symbol": "x-thin-open", "opacity": 0.9},
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
    def miss(self) -> str:
        """How the case misses: outside its interval, or far off without one; empty otherwise."""
        if self.low is None or self.high is None:
            is_near = 1 / _BAND_FACTOR <= self.predicted / self.measured <= _BAND_FACTOR
            return "" if is_near else _OUTSIDE_BAND
        return "" if self.low <= self.measured <= self.high else _OUTSIDE_INTERVAL


def measured_figure(
    groups: Mapping[str, Sequence[Pair]], what: str, unit: str, title: str
) -> go.Figure:
    """Draw the pairs of each group; times on logarithmic axes, shares (no ``unit``) on linear ones.

    The band is within a factor of 1.25. Intervals are vertical lines; points outside theirs have
    another mark.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    every = [pair for pairs in groups.values() for pair in pairs]
    values = [value for pair in every for value in (pair.measured, pair.predicted) if value > 0]
    if values:
        # Extend the band by a factor, because axes of times are logarithmic.
        _add_band(figure, min(values) / 1.3, max(values) * 1.3)

    for number, (name, pairs) in enumerate(groups.items()):
        look = marker_of(number, color=COLOURS[number % len(COLOURS)], opacity=0.7)
        right = [pair for pair in pairs if not pair.miss]
        figure.add_scatter(**_points(f"{name} ({len(pairs):,})", right, unit, look))
    # Draw missed cases last, on top of the correct ones.
    misses: dict[str, list[Pair]] = {}
    for pair in every:
        if pair.miss:
            misses.setdefault(pair.miss, []).append(pair)
    for reason, pairs in sorted(misses.items()):
        label = f"{reason} ({len(pairs):,})"
        figure.add_scatter(**_points(label, pairs, unit, _MISS_MARKERS[reason]))

    # Ticks such as 10 ms are easier to read than powers of ten of seconds.
    log = {"type": "log", "tickformat": "~s", "ticksuffix": unit, "dtick": 1}
    axis = log if unit else {"tickformat": ".0%"}
    figure.update_xaxes(**axis)
    figure.update_yaxes(**axis)
    return set_style(figure, title, f"measured {what}", f"predicted {what}")


def _add_band(figure: go.Figure, low: float, high: float) -> None:
    """Draw the line on which predictions equal measurements, and the band around it."""
    ends = [low, high]
    upper_edge = [low * _BAND_FACTOR, high * _BAND_FACTOR]
    # The outline goes up along the upper edge of the band, and back along the lower edge.
    band = {
        "x": [*ends, *ends[::-1]],
        "y": [*upper_edge, high / _BAND_FACTOR, low / _BAND_FACTOR],
        "fill": "toself",
        "mode": "none",
    }
    figure.add_scatter(**band, name="within a factor of 1.25", fillcolor=FAINT, hoverinfo="skip")
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
    form, suffix = _form_and_suffix(unit)
    where = f"measured %{{x:{form}}}{suffix}, predicted %{{y:{form}}}{suffix}"
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


def _form_and_suffix(unit: str) -> tuple[str, str]:
    """Return the format of a number, and its unit after a space; without ``unit`` of a share."""
    return (".4g", f" {unit}") if unit else (".1%", "")


def _hover_text(pair: Pair, unit: str) -> str:
    text = f"{pair.name}<br>{pair.predicted / pair.measured - 1:+.1%}"
    if pair.low is None or pair.high is None:
        return text
    form, suffix = _form_and_suffix(unit)
    return f"{text}, interval {pair.low:{form}} to {pair.high:{form}}{suffix}"


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
