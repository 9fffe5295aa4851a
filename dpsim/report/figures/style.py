"""How figures look: colours that people with any colour vision tell apart, one layout for all."""

from __future__ import annotations

from collections.abc import Mapping
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from dpsim.engine import PARTS, Result

if TYPE_CHECKING:
    import plotly.graph_objects as go

# Okabe and Ito, "Color universal design", 2008; and a grey for what is left over.
COLOUR = {
    "blue": "#0072b2",
    "orange": "#e69f00",
    "bluish green": "#009e73",
    "reddish purple": "#cc79a7",
    "sky blue": "#56b4e9",
    "vermilion": "#d55e00",
    "yellow": "#f0e442",
    "black": "#000000",
    "grey": "#8a8f98",
}
COLOURS = tuple(colour for name, colour in COLOUR.items() if name != "grey")
PART_COLOURS = {name: COLOUR[part.colour] for name, part in PARTS.items()}
_SHORT = 12  # letters of a name of which two fit side by side
DASHES = ("solid", "dash", "dot", "dashdot", "longdash", "longdashdot")
SYMBOLS = ("circle", "square", "diamond", "cross", "x", "triangle-up")

# The JSON object of ``dpsim run``.
Answer = Mapping[str, Any]


def answer(result: Result | Answer) -> Answer:
    """The JSON object of a result, which may be one already."""
    return result.to_json() if isinstance(result, Result) else result


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
        template="plotly_white",
        colorway=list(COLOURS),
        font={"family": "system-ui, sans-serif", "size": 13},
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
