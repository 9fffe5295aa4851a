"""Figures in a page: in its colours, light or dark, and in words for those who see none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import streamlit as st

from dpsim.report.figures.style import in_mode
from dpsim.report.theme import Mode

if TYPE_CHECKING:
    import plotly.graph_objects as go

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
    """Draw a figure.

    ``height`` in pixels, its own if left out; ``alt`` says what it shows, if its title does not.
    """
    title = figure.layout.title.text or key
    if height is not None:
        # Of the figure, not of a box that it would be scrolled in, which no key can reach.
        figure.update_layout(height=height)
    # Without a theme of Streamlit's, which would replace the figure's own colours.
    st.plotly_chart(
        in_mode(figure, mode()),
        key=key,
        theme=None,
        config=_CONFIG,
        alt=alt or str(title).partition("<br>")[0],
    )
