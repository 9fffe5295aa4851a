"""Predicted against measured, as a picture and as one page."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from dpsim.report.pages.document import document, figure_html
from dpsim.report.theme import COLOUR, template
from validate.compare.comparison import Comparison

if TYPE_CHECKING:
    import plotly.graph_objects as go

_COLOURS = {"step": COLOUR["blue"], "collective": COLOUR["vermilion"]}
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
    # A prediction of 0 s has no place on a logarithmic axis.
    seconds = [record.median_s for record in comparison.counted]
    seconds += [record.predicted_s for record in comparison.counted if record.predicted_s]
    if seconds:
        ends = [min(seconds) / 1.2, max(seconds) * 1.2]
        figure.add_scatter(
            x=ends,
            y=ends,
            mode="lines",
            name="right",
            line={"dash": "dash", "width": 1, "color": COLOUR["grey"]},
        )
    figure.update_xaxes(title_text="measured (s)", type="log")
    # A factor is as long on both axes, so that points compare with the diagonal by eye.
    figure.update_yaxes(title_text="predicted (s)", type="log", scaleanchor="x")
    figure.update_layout(title=_title(comparison), template=template())
    return figure


def page(comparison: Comparison) -> str:
    """One page that needs nothing else: the picture, the table of errors, and the worst cases."""
    figure = figure_html(comparison_figure(comparison))
    rows = [_cells("th", _HEADINGS)]
    for name, one in comparison.groups.items():
        errors = (one.median_ape, one.mean_ape, one.p95_ape, one.worst_ape)
        rows.append(_cells("td", (name, one.n, *(f"{error:.1%}" for error in errors), one.worst)))
    worst = "".join(f"<li>{escape(str(cause))}</li>" for cause in comparison.worst)
    title = "Predicted and measured"
    return document(
        title,
        f"<h1>{title}</h1>{figure}"
        f"<h2>Absolute errors</h2><table>{''.join(rows)}</table>"
        f"<h2>Worst cases</h2><ul>{worst}</ul>",
    )


def _cells(tag: str, values: tuple[object, ...]) -> str:
    cells = [f"<{tag}>{escape(str(value))}</{tag}>" for value in values]
    return f"<tr>{''.join(cells)}</tr>"


def _title(comparison: Comparison) -> str:
    overall = comparison.overall
    if overall is None:
        return "No case that counts"
    errors = f"mean error {overall.mean_ape:.1%}, worst {overall.worst_ape:.1%}"
    return f"{overall.n} cases on real ranks: {errors}"
