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
_FOREIGN_MARKUP = re.compile(r"<(?!/?(?:b|br|sub|extra)>)")
_TRACE_TEXTS = ("name", "text", "hovertext", "hovertemplate", "customdata", "x", "y")


def as_text(figure: go.Figure) -> go.Figure:
    """Escape all markup in ``figure`` except the figures' own, in place; return the figure."""
    for part, key in _text_places(figure):
        value = part[key]
        escaped = _escape(value)
        if escaped is not value:
            part[key] = escaped
    return figure


def _text_places(figure: go.Figure) -> Iterator[tuple[Any, str]]:
    """Yield each text of the figure, as the part that has it and the key."""
    for trace in figure.data:
        yield from ((trace, key) for key in _TRACE_TEXTS if key in trace)
    layout = figure.layout
    yield from ((part, "text") for part in (layout.title, layout.title.subtitle))
    yield layout.legend.title, "text"
    yield from ((note, "text") for note in layout.annotations)
    for axis in (*figure.select_xaxes(), *figure.select_yaxes()):
        yield axis.title, "text"
        yield from ((axis, key) for key in ("ticktext", "categoryarray"))


def _escape(value: Any) -> Any:
    """Return the escaped value, or the same object if nothing changes."""
    if isinstance(value, str):
        return _FOREIGN_MARKUP.sub("&lt;", value) if _FOREIGN_MARKUP.search(value) else value
    if not isinstance(value, list | tuple):  # an array of numbers, or nothing
        return value
    escaped = [_escape(each) for each in value]
    is_same = all(one is other for one, other in zip(value, escaped, strict=True))
    return value if is_same else escaped
