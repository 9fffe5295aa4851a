"""Names in figures are shown as text: plotly would take some HTML in them for marks, and for links.

Scenarios, layers, devices and columns may be called anything by whoever wrote the file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go

# The marks that figures themselves use, none of which leads anywhere.
_FOREIGN = re.compile(r"<(?!/?(?:b|br|sub|extra)>)")
_OF_TRACES = ("name", "text", "hovertext", "hovertemplate", "customdata", "x", "y")


def as_text(figure: go.Figure) -> go.Figure:
    """``figure`` itself, with every mark in its words that is not one of the figures' own as text.

    For a browser alone: plots in a terminal show words as they are.
    """
    for part, key in _words(figure):
        given = part[key]
        shown = _shown(given)
        if shown is not given:
            part[key] = shown
    return figure


def _words(figure: go.Figure) -> Iterator[tuple[Any, str]]:
    """Where words may stand: parts of the figure, each with a key."""
    for trace in figure.data:
        yield from ((trace, key) for key in _OF_TRACES if key in trace)
    layout = figure.layout
    yield from ((part, "text") for part in (layout.title, layout.title.subtitle))
    yield layout.legend.title, "text"
    yield from ((note, "text") for note in layout.annotations)
    for axis in (*figure.select_xaxes(), *figure.select_yaxes()):
        yield axis.title, "text"
        yield from ((axis, key) for key in ("ticktext", "categoryarray"))


def _shown(given: Any) -> Any:
    """The same object where there is nothing foreign in it."""
    if isinstance(given, str):
        return _FOREIGN.sub("&lt;", given) if _FOREIGN.search(given) else given
    if not isinstance(given, list | tuple):  # an array of numbers, or nothing
        return given
    shown = [_shown(each) for each in given]
    is_same = all(one is other for one, other in zip(given, shown, strict=True))
    return given if is_same else shown
