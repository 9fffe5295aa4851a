"""Figures in a page: in its colours, light or dark, and in words for those who see none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

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
    height: int | Literal["content", "stretch"] = "content",
    alt: str | None = None,
) -> None:
    """Draw a figure; ``alt`` says what it shows, its title if it is left out."""
    title = figure.layout.title.text or key
    st.plotly_chart(
        in_mode(figure, mode()),
        key=key,
        theme=None,
        height=height,
        config=_CONFIG,
        alt=alt or str(title).partition("<br>")[0],
    )
