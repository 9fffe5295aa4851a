"""Figures in a page: in its colours, light or dark, and in words for those who see none."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import streamlit as st

from dpsim.report.figures.names import as_text
from dpsim.report.figures.style import in_mode
from dpsim.report.theme import Mode

if TYPE_CHECKING:
    import plotly.graph_objects as go

_TITLE = 40  # pixels that a figure keeps for its title
_CONFIG: dict[str, Any] = {"displaylogo": False, "responsive": True}


def mode() -> Mode:
    """Whether the browser shows the page light or dark."""
    return "dark" if st.context.theme.type == "dark" else "light"


def chart(
    figure: go.Figure,
    key: str,
    height: int | None = None,
    alt: str | None = None,
) -> None:
    """Draw a figure below its title.

    ``height`` of both in pixels, the figure's own if left out; ``alt`` says what it shows, if its
    title does not.
    """
    title = _in_one_line(figure.layout.title.text)
    below = _in_one_line(figure.layout.title.subtitle.text)
    # Of the figure, not of a box that it would be scrolled in, which no key can reach.
    if height is not None:
        figure.update_layout(height=height)
    # The page wraps a title where its own width ends, which plotly does not know.
    if title:
        st.html(f'<h2 class="dp-chart">{escape(title)}<small>{escape(below)}</small></h2>')
        _remove_title(figure)
    # Without a theme of Streamlit's, which would replace the figure's own colours.
    st.plotly_chart(
        as_text(figure if mode() == "light" else in_mode(figure, "dark")),  # figures come light
        key=key,
        theme=None,
        config=_CONFIG,
        alt=alt or title or key,
    )


def _remove_title(figure: go.Figure) -> None:
    """Without its title, and without the room that was kept for it."""
    height, top = figure.layout.height, figure.layout.margin.t
    figure.update_layout(title=None)
    if height is not None:
        figure.update_layout(height=height - _TITLE)
    if top is not None and top > _TITLE:
        figure.update_layout(margin_t=top - _TITLE)


def _in_one_line(text: str | None) -> str:
    return (text or "").replace("<br>", " ")
