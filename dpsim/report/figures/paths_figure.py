"""The weights of each worker on the loss surface, as they move during training."""

from __future__ import annotations

from collections.abc import Mapping

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dpsim.report.figures.style import in_mode
from dpsim.report.theme import COLOUR, LINE, SERIES
from dpsim.studies.replay import Paths

_HEIGHT = 480
_LINES = 18  # the most lines of equal loss


def paths_figure(paths: Mapping[str, Paths]) -> go.Figure:
    """Draw a panel for each of ``paths``: lines of equal loss, and each worker's weights.

    A circle is where a worker ends; the dotted line is the measured model, "their centre" in
    the legend.
    """
    titles = [
        f"{name}<br><sub>{each.kept:.0%} of the variance of the weights</sub>"
        for name, each in paths.items()
    ]
    figure = make_subplots(rows=1, cols=len(paths), subplot_titles=titles, horizontal_spacing=0.06)
    for column, each in enumerate(paths.values(), 1):
        _add_panel(figure, each, column)

    figure.update_xaxes(title_text="first direction of the weights")
    figure.update_yaxes(title_text="second direction", row=1, col=1)
    figure.update_layout(
        title={
            "text": "Weights on the surface of the loss" if len(paths) > 1 else "",
            "x": 0.01,
            "xref": "container",
            "font": {"size": 16},
        },
        height=_HEIGHT if len(paths) > 1 else _HEIGHT - 50,
        legend={
            "orientation": "h",
            "x": 0,
            "xref": "container",
            "y": 0,
            "yref": "container",
            "yanchor": "bottom",
        },
        margin={"l": 50, "r": 20, "t": 110 if len(paths) > 1 else 60, "b": 40},
    )
    return in_mode(figure)


def _add_panel(figure: go.Figure, each: Paths, column: int) -> None:
    """Draw lines of equal loss, the path of each worker, and the measured model's path."""
    figure.add_contour(
        x=each.across,
        y=each.up,
        z=each.loss,
        ncontours=_LINES,
        contours={
            "coloring": "none",
            "showlabels": True,
            "labelfont": {"size": 10, "color": COLOUR["grey"]},
        },
        line={"width": 1, "color": LINE},
        showlegend=False,
        hovertemplate="loss %{z:.3g}<extra></extra>",
        row=1,
        col=column,
    )
    for worker in range(each.workers.shape[1]):
        # Shape (points, 2), from (points, workers, 2).
        way = each.workers[:, worker]
        figure.add_scatter(
            x=way[:, 0],
            y=way[:, 1],
            mode="lines+markers",
            line={"color": SERIES[worker % len(SERIES)], "width": 1.5},
            marker={"size": [0] * (len(way) - 1) + [9]},
            name=f"worker {worker}",
            legendgroup=f"worker {worker}",
            showlegend=column == 1,
            row=1,
            col=column,
        )
    figure.add_scatter(
        x=each.centre[:, 0],
        y=each.centre[:, 1],
        mode="lines",
        line={"color": COLOUR["grey"], "width": 3, "dash": "dot"},
        name="their centre",
        legendgroup="centre",
        showlegend=column == 1,
        row=1,
        col=column,
    )
