"""Escape HTML in the names shown in figures, which plotly would take for markup and links.

Scenarios, layers, devices and columns may have any name in a user's file.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import plotly.graph_objects as go

# The markup that figures use themselves, none of which is a link.
_FOREIGN = re.compile(r"<(?!/?(?:b|br|sub|extra)>)")
_OF_TRACES = ("name", "text", "hovertext", "hovertemplate", "customdata", "x", "y")


def as_text(figure: go.Figure) -> go.Figure:
    """Escape all markup in ``figure`` except the figures' own, in place; return the figure."""
    for part, key in _words(figure):
        given = part[key]
        shown = _shown(given)
        if shown is not given:
            part[key] = shown
    return figure


def _words(figure: go.Figure) -> Iterator[tuple[Any, str]]:
    """Yield the places of text: parts of the figure, each with a key."""
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
    """Return the escaped value, or the same object if nothing changes."""
    if isinstance(given, str):
        return _FOREIGN.sub("&lt;", given) if _FOREIGN.search(given) else given
    if not isinstance(given, list | tuple):  # an array of numbers, or nothing
        return given
    shown = [_shown(each) for each in given]
    is_same = all(one is other for one, other in zip(given, shown, strict=True))
    return given if is_same else shown
