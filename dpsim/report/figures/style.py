"""How figures look: colours of parts and series, units that suit their numbers, one layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from dpsim.engine import PARTS, Result
from dpsim.report.theme import COLOUR, SERIES, Mode, template

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = SERIES
PART_COLOURS = {name: COLOUR[part.colour] for name, part in PARTS.items()}
# From so many seconds on, times are shown as so many a second of that unit.
_TIME_UNITS = ((7200.0, 1 / 3600, "h"), (120.0, 1 / 60, "min"), (1.0, 1.0, "s"), (1e-3, 1e3, "ms"))
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up")

# Letters that a phone's width has room for, in a title and in the line below it.
_TITLE, _BELOW = 44, 58
_LINE = 21  # pixels of a title's line
_ENDLESS = 1e300  # of any unit: no answer has it
_MOST_TICKS = 8
_FEW_TENS = 3  # powers of ten that leave room for ticks between them

# The JSON object of ``dpsim run``.
Answer = Mapping[str, Any]


def answer(result: Result | Answer) -> Answer:
    """The JSON object of a result, which may be one already."""
    return result.to_json() if isinstance(result, Result) else result


def in_mode(figure: go.Figure, mode: Mode = "light") -> go.Figure:
    """``figure`` with the palette of ``mode``; pages are drawn light unless they ask."""
    # In place of plotly's own, which an update would merge it with, at 25 ms a figure.
    figure.layout.template = template(mode)
    return figure


def time_unit(seconds: float) -> tuple[float, str]:
    """By what to multiply times that reach ``seconds``, and the unit that they then have."""
    for least, factor, unit in _TIME_UNITS:
        if seconds >= least:
            return factor, unit
    return 1e6, "us"


def long_time(seconds: float) -> str:
    """``3.01 h`` for 10,836 s: a time that may be hours, in the unit of `time_unit`."""
    factor, unit = time_unit(seconds)
    return f"{factor * seconds:,.3g} {unit}"


def log_axis(values: Sequence[float]) -> dict[str, Any]:
    """A logarithmic axis for ``values``: ticks at 1, 2 and 5, over many tens at 1 alone."""
    # What is free, or without end, has no place on such an axis.
    shown = [value for value in values if 0 < value < _ENDLESS] or [1.0]
    low, high = floor(log10(min(shown))), ceil(log10(max(shown)))
    digits = (1, 2, 5) if high - low <= _FEW_TENS else (1,)
    ticks = [digit * 10.0**power for power in range(low, high + 1) for digit in digits]
    return {"type": "log", "tickvals": ticks, "ticktext": [_short(tick) for tick in ticks]}


def _short(value: float) -> str:
    """``20k`` for 20,000; below a thousand as it is, since 500m could be minutes."""
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:g}{letter}"
    return f"{value:g}"


def counts_axis(counts: Sequence[int]) -> dict[str, Any]:
    """A logarithmic axis with a tick at each of ``counts``, of workers or samples.

    Of many at every second or so, down from the largest, as a phone has room for.
    """
    known = sorted(set(counts))
    every = ceil(len(known) / _MOST_TICKS)
    return {"type": "log", "tickvals": known[::-1][::every][::-1], "tickformat": ","}


def per_second(rate: float) -> str:
    """A rate of samples or tokens, with four digits or all of them."""
    return f"{rate:,.4g}" if rate < 1e4 else f"{rate:,.0f}"


def wrapped(text: str, width: int = _TITLE) -> str:
    """``text`` in lines of at most ``width`` letters, so that a narrow page does not cut it."""
    lines = [
        line
        for given in text.split("<br>")
        for line in wrap(given, width, break_on_hyphens=False, break_long_words=False)
    ]
    return "<br>".join(lines)


def styled(figure: go.Figure, title: str, x: str, y: str, **layout: Any) -> go.Figure:
    """``figure`` with what it shows as its title, and what its axes measure, with units.

    What stands between ``<br><sub>`` and ``</sub>`` is a line of its own below the title.
    """
    head, _, below = title.partition("<br><sub>")
    head, below = wrapped(head), wrapped(below.removesuffix("</sub>"), _BELOW)
    # plotly draws a title of several lines higher by their height, and reserves its room all the
    # same: it is moved back.
    lines = head.count("<br>") + 1
    higher = _LINE * lines if lines > 1 else 0
    # Title and legend reserve the room that they need, which on a narrow page is several lines.
    figure.update_layout(
        title={
            "text": head,
            "subtitle": {"text": below, "font": {"size": 12}},
            "x": 0.0,
            "xanchor": "left",
            "xref": "container",
            "y": 1.0,
            "yanchor": "top",
            "yref": "container",
            "automargin": True,
            "pad": {"t": 12 + higher, "b": 10 - higher, "l": 8},
            "font": {"size": 16},
        },
        legend={
            "orientation": "h",
            "x": 0.0,
            "xref": "container",
            "y": 0.0,
            "yref": "container",
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        margin={"l": 60, "r": 20, "t": 20, "b": 20},
        # A number that does not fit its bar is hidden, and not shrunk until nobody can read it.
        uniformtext={"minsize": 11, "mode": "hide"},
        **layout,
        xaxis_title=x,
        yaxis_title=y,
        # Whole parts, in place of those that a new figure has: to merge them takes 7 ms more.
        overwrite=True,
    )
    return in_mode(figure)
