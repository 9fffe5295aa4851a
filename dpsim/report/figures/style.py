"""The style of figures: colours of parts and series, suitable units, one layout."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil, floor, log10
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from dpsim.base.units import amount
from dpsim.engine import PARTS, Result
from dpsim.report.theme import COLOUR, SERIES, Mode, template

if TYPE_CHECKING:
    import plotly.graph_objects as go

COLOURS = SERIES
PART_COLOURS = {name: COLOUR[part.colour] for name, part in PARTS.items()}
# From so many seconds on, times are multiplied by the factor and shown in that unit.
_TIME_UNITS = ((7200.0, 1 / 3600, "h"), (120.0, 1 / 60, "min"), (1.0, 1.0, "s"), (1e-3, 1e3, "ms"))
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up")

_TITLE, _BELOW = 44, 58  # letters that fit on a phone in a title, and in the line below it
_LINE = 21  # pixels of a title's line
_ENDLESS = 1e300  # in any unit: larger than any answer
_MOST_TICKS = 8
_FEW_TENS = 3  # powers of ten that leave room for ticks between them

# The JSON object of ``dpsim run``.
Answer = Mapping[str, Any]


def line_of(number: int, **more: Any) -> dict[str, Any]:
    """Return the line of the series ``number``, with a dash of its own.

    Colours alone are lost in greyscale and to colour-blind readers.
    """
    dash = DASHES[number % len(DASHES)]
    return {"color": COLOURS[number % len(COLOURS)], "dash": dash, **more}


def marker_of(number: int, **more: Any) -> dict[str, Any]:
    """Return the marks of the series ``number``, with a symbol of their own."""
    return {"symbol": SYMBOLS[number % len(SYMBOLS)], **more}


def answer(result: Result | Answer) -> Answer:
    """Return the JSON object of a result, or the object itself."""
    return result.to_json() if isinstance(result, Result) else result


def in_mode(figure: go.Figure, mode: Mode = "light") -> go.Figure:
    """Set the palette of ``mode`` on ``figure``; pages are light by default."""
    # Assign the template, because update_layout would merge it with plotly's in 25 ms per figure.
    figure.layout.template = template(mode)
    return figure


def time_unit(seconds: float) -> tuple[float, str]:
    """Return the factor and the unit for times up to ``seconds``."""
    for least, factor, unit in _TIME_UNITS:
        if seconds >= least:
            return factor, unit
    return 1e6, "us"


def long_time(seconds: float) -> str:
    """Return a time in the unit of `time_unit`: ``3.01 h`` for 10,836 s."""
    factor, unit = time_unit(seconds)
    return f"{factor * seconds:,.3g} {unit}"


def log_axis(values: Sequence[float]) -> dict[str, Any]:
    """Return a logarithmic axis for ``values``: ticks at 1, 2 and 5, or only 1 if it is long."""
    # A logarithmic axis cannot show 0 and infinity.
    shown = [value for value in values if 0 < value < _ENDLESS] or [1.0]
    low, high = floor(log10(min(shown))), ceil(log10(max(shown)))
    digits = (1, 2, 5) if high - low <= _FEW_TENS else (1,)
    ticks = [digit * 10.0**power for power in range(low, high + 1) for digit in digits]
    return {"type": "log", "tickvals": ticks, "ticktext": [_short(tick) for tick in ticks]}


def _short(value: float) -> str:
    """Return ``20k`` for 20,000; unchanged below a thousand, since 500m could be minutes."""
    for scale, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value >= scale:
            return f"{value / scale:g}{letter}"
    return f"{value:g}"


def counts_axis(counts: Sequence[int]) -> dict[str, Any]:
    """Return a logarithmic axis with a tick at each of ``counts``, of workers or samples.

    If there are many, ticks are thinned out from the largest down, to fit on a phone.
    """
    distinct = sorted(set(counts))
    every = ceil(len(distinct) / _MOST_TICKS)
    return {"type": "log", "tickvals": distinct[::-1][::every][::-1], "tickformat": ","}


def rounded(number: float) -> str:
    """Return a number with three significant digits, as ``9,740``."""
    return amount(float(f"{number:.3g}"))


def wrapped(text: str, width: int = _TITLE) -> str:
    """Break ``text`` into lines of at most ``width`` letters, for narrow pages."""
    lines = [
        line
        for line_given in text.split("<br>")
        for line in wrap(line_given, width, break_on_hyphens=False, break_long_words=False)
    ]
    return "<br>".join(lines)


def set_style(figure: go.Figure, title: str, x: str, y: str, **layout: Any) -> go.Figure:
    """Set the title of ``figure`` and the labels of its axes, with units.

    Text between ``<br><sub>`` and ``</sub>`` becomes a line of its own below the title.
    """
    head, _, below = title.partition("<br><sub>")
    head, below = wrapped(head), wrapped(below.removesuffix("</sub>"), _BELOW)
    # plotly moves a title of several lines up by their height, but reserves the room anyway, so it
    # is moved back down.
    lines = head.count("<br>") + 1
    higher = _LINE * lines if lines > 1 else 0
    # Title and legend reserve the room that they need, on a narrow page several lines.
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
        # A number that does not fit its bar is hidden instead of shrunk until it is unreadable.
        uniformtext={"minsize": 11, "mode": "hide"},
        **layout,
        xaxis_title=x,
        yaxis_title=y,
        # ``overwrite`` replaces the parts of a new figure, because merging takes 7 ms more.
        overwrite=True,
    )
    return in_mode(figure)
