"""How figures look: colours of parts and series, units that suit their numbers, one layout."""

from __future__ import annotations

from collections.abc import Mapping
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
_SHORT = 12  # letters of a name of which two fit side by side
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up")

# The JSON object of ``dpsim run``.
Answer = Mapping[str, Any]


def answer(result: Result | Answer) -> Answer:
    """The JSON object of a result, which may be one already."""
    return result.to_json() if isinstance(result, Result) else result


def in_mode(figure: go.Figure, mode: Mode) -> go.Figure:
    """``figure``, which is drawn light, for a page in ``mode``."""
    return figure.update_layout(template=template(mode))


def time_unit(seconds: float) -> tuple[float, str]:
    """By what to multiply times that reach ``seconds``, and the unit that they then have."""
    for least, factor, unit in _TIME_UNITS:
        if seconds >= least:
            return factor, unit
    return 1e6, "us"


def wrapped(text: str, width: int = 46) -> str:
    """``text`` as a title of several lines, so that a narrow page does not cut it."""
    return "<br>".join(wrap(text, width, break_on_hyphens=False, break_long_words=False))


def styled(figure: go.Figure, title: str, x: str, y: str, **layout: Any) -> go.Figure:
    """``figure`` with what it shows as its title, and what its axes measure, with units."""
    figure.update_layout(
        title={
            "text": title,
            "x": 0.01,
            "xanchor": "left",
            "xref": "container",
            "y": 1.0,
            "yanchor": "top",
            "pad": {"t": 12},
            "font": {"size": 16},
        },
        template=template(),
        legend={
            "orientation": "h",
            "x": 0.0,
            "y": 1.0,
            "yanchor": "bottom",
            "traceorder": "normal",
        },
        margin={"l": 70, "r": 20, "t": _top(figure, title), "b": 60},
        xaxis_title=x,
        yaxis_title=y,
        **layout,
    )
    return figure


def _top(figure: go.Figure, title: str) -> int:
    """Pixels for the title and below it the legend.

    On a narrow page the legend has one or two names a line.
    """
    names = [
        str(trace.name) for trace in figure.data if trace.name and trace.showlegend is not False
    ]
    lines = len(names) if any(len(name) > _SHORT for name in names) else -(-len(names) // 2)
    return max(90, 25 + 22 * (1 + title.count("<br>")) + 20 * lines)
