"""Figures in a page: in its light or dark colours, with a text alternative."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

import streamlit as st

from dpsim.report.figures.names import as_text
from dpsim.report.figures.style import in_mode
from dpsim.report.theme import Mode

if TYPE_CHECKING:
    import plotly.graph_objects as go
    from rich.table import Table

_TITLE = 40  # pixels reserved for a figure's title
_CONFIG: dict[str, Any] = {"displaylogo": False, "responsive": True}


def mode() -> Mode:
    """Return whether the browser shows the page light or dark."""
    return "dark" if st.context.theme.type == "dark" else "light"


def chart(
    figure: go.Figure,
    key: str,
    height: int | None = None,
    clicked: Callable[[], None] | None = None,
) -> None:
    """Draw a figure below its title.

    ``height`` of both in pixels, by default the figure's. The text alternative is the title, or the
    ``key`` where there is none. ``clicked`` is called when a point is clicked.
    """
    title = _in_one_line(figure.layout.title.text)
    below = _in_one_line(figure.layout.title.subtitle.text)
    # Set the figure's height instead of a scroll box's, which the keyboard cannot reach.
    if height is not None:
        figure.update_layout(height=height)
    # The page wraps a title at its own width, which plotly does not know.
    if title:
        st.html(f'<h2 class="dp-chart">{escape(title)}<small>{escape(below)}</small></h2>')
        _remove_title(figure)
    # Without Streamlit's theme, which would replace the figure's colours.
    st.plotly_chart(
        as_text(figure if mode() == "light" else in_mode(figure, "dark")),  # figures come light
        key=key,
        theme=None,
        config=_CONFIG,
        alt=title or key,
        on_select=clicked or "ignore",
        selection_mode="points",
    )


def table(columns: Mapping[str, Sequence[object]]) -> None:
    """Draw a table by its columns, all rows of it."""
    st.dataframe(columns, hide_index=True, height="content")


def download(
    label: str, content: str | Callable[[], str], name: str, mime: str, about: str | None = None
) -> None:
    """Draw a button that downloads a file ``name``."""
    # A download changes nothing on the page, so no rerun is needed.
    icon = ":material/download:"
    st.download_button(label, content, name, mime, help=about, on_click="ignore", icon=icon)


def columns(rows: Table) -> dict[str, list[str]]:
    """Return the columns of a terminal's table by their headings."""
    return {str(column.header): [str(cell) for cell in column.cells] for column in rows.columns}


def _remove_title(figure: go.Figure) -> None:
    """Remove the figure's title, and the space reserved for it."""
    height, top = figure.layout.height, figure.layout.margin.t
    figure.update_layout(title=None)
    if height is not None:
        figure.update_layout(height=height - _TITLE)
    if top is not None and top > _TITLE:
        figure.update_layout(margin_t=top - _TITLE)


def _in_one_line(text: str | None) -> str:
    return (text or "").replace("<br>", " ")
