"""Predicted against measured, as a picture and as one page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

import numpy as np

from validate.compare.comparison import Comparison

if TYPE_CHECKING:
    import plotly.graph_objects as go

_COLOURS = {"step": "#0072b2", "collective": "#d55e00"}  # told apart by everybody
_HEADINGS = ("cases of", "n", "median", "mean", "95th percentile", "worst", "worst case")


def comparison_figure(comparison: Comparison) -> go.Figure:
    """A point for each case that counts, both axes logarithmic.

    On the dashed line the prediction is right.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    for kind, colour in _COLOURS.items():
        records = [record for record in comparison.counted if record.kind == kind]
        if records:
            figure.add_scatter(
                x=[record.median_s for record in records],
                y=[record.predicted_s for record in records],
                text=[f"{record.name}<br>{record.error:+.1%}" for record in records],
                hovertemplate="%{text}<br>measured %{x:.4g} s, predicted %{y:.4g} s<extra></extra>",
                mode="markers",
                name=f"{kind}s ({len(records)})",
                marker={"color": colour, "size": 8, "opacity": 0.7},
            )
    seconds = np.array(
        [
            value
            for record in comparison.counted
            for value in (record.median_s, record.predicted_s or np.nan)
        ]
    )
    if len(seconds):
        ends = [float(np.nanmin(seconds)) / 1.2, float(np.nanmax(seconds)) * 1.2]
        figure.add_scatter(
            x=ends,
            y=ends,
            mode="lines",
            name="right",
            line={"dash": "dash", "width": 1, "color": "#8a8f98"},
        )
    figure.update_xaxes(title_text="measured (s)", type="log")
    figure.update_yaxes(title_text="predicted (s)", type="log", scaleanchor="x")
    figure.update_layout(title=_title(comparison), template="plotly_white")
    return figure


def page(comparison: Comparison) -> str:
    """One page that needs nothing else: the picture, the table of errors, and the worst cases."""
    figure = comparison_figure(comparison).to_html(full_html=False, include_plotlyjs=True)
    rows = "".join(
        _cells(
            "td",
            (
                name,
                one.n,
                *(f"{x:.1%}" for x in (one.median_ape, one.mean_ape, one.p95_ape, one.worst_ape)),
                one.worst,
            ),
        )
        for name, one in comparison.groups.items()
    )
    worst = "".join(f"<li>{escape(str(cause))}</li>" for cause in comparison.worst)
    style = "body{font-family:sans-serif;max-width:70em;margin:2em auto}td,th{padding:.2em .8em;text-align:left}"
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><title>Predicted and "
        f"measured</title><style>{style}</style>"
        f"<h1>Predicted and measured</h1>{figure}<h2>Absolute "
        f"errors</h2><table>{_cells('th', _HEADINGS)}{rows}</table>"
        f"<h2>Worst cases</h2><ul>{worst}</ul></html>\n"
    )


def _cells(tag: str, values: tuple[object, ...]) -> str:
    return "<tr>" + "".join(f"<{tag}>{escape(str(value))}</{tag}>" for value in values) + "</tr>"


def _title(comparison: Comparison) -> str:
    overall = comparison.overall
    if overall is None:
        return "No case that counts"
    return f"{overall.n} cases on real ranks: mean error {overall.mean_ape:.1%}, worst {overall.worst_ape:.1%}"
