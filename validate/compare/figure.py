"""Predicted against measured times, as a figure and as one page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpsim.report.figures.measured_figure import measured_figure
from dpsim.report.pages.document import document, figure_html, table_html
from validate.compare.comparison import Comparison

if TYPE_CHECKING:
    import plotly.graph_objects as go

_HEADINGS = ("cases of", "n", "median", "mean", "95th percentile", "worst", "worst case")


def comparison_figure(comparison: Comparison) -> go.Figure:
    """Return a figure with a point for each counted case; the dashed line marks exact ones."""
    overall = comparison.overall
    if overall is None:
        return measured_figure({}, "time", "s", "No case that counts")
    errors = f"mean error {overall.mean_ape:.1%}, worst {overall.worst_ape:.1%}"
    title = f"{overall.n:,} cases on real ranks<br><sub>{errors}</sub>"
    return measured_figure(comparison.pairs, "time", "s", title)


def page(comparison: Comparison) -> str:
    """Return a self-contained page: the figure, the table of errors, and the worst cases."""
    figure = figure_html(comparison_figure(comparison))
    rows = []
    for name, one in comparison.groups.items():
        errors = (one.median_ape, one.mean_ape, one.p95_ape, one.worst_ape)
        rows.append((name, str(one.n), *(f"{error:.1%}" for error in errors), one.worst))
    worst = "".join(f"<li>{escape(str(cause))}</li>" for cause in comparison.worst)
    title = "Predicted and measured"
    return document(
        title,
        f"<h1>{title}</h1>{figure}"
        f"<h2>Absolute errors</h2>{table_html(_HEADINGS, rows)}"
        f"<h2>Worst cases</h2><ul>{worst}</ul>",
    )
