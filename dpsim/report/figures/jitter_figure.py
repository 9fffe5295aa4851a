"""Fitted jitter against the measured steps: quantiles, and one step after the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.report.figures.style import Answer, styled
from dpsim.report.theme import COLOUR

if TYPE_CHECKING:
    import plotly.graph_objects as go

_LOOKS = {
    "measured": {"color": COLOUR["blue"], "width": 2},
    "drawn": {"color": COLOUR["vermilion"], "width": 2, "dash": "dot"},
}


def jitter_figure(fitted: Answer) -> go.Figure:
    """Draw ``dpsim fit-jitter --json`` in two panels: by the share of steps, and over time."""
    from plotly.subplots import make_subplots

    figure = make_subplots(rows=2, cols=1, vertical_spacing=0.2)
    curve, series = fitted["curve"], fitted["series"]
    shares = [100 * share for share in curve["share"]]
    for name, line in _LOOKS.items():
        same = {"name": name, "legendgroup": name, "line": line}
        figure.add_scatter(x=shares, y=curve[name], **same, row=1, col=1)
        steps = [*range(1, len(series[name]) + 1)]
        figure.add_scatter(x=steps, y=series[name], **same, showlegend=False, row=2, col=1)
    over = "step over mean"
    title = (
        "Steps as measured and as drawn from the fit<br><sub>Above: which share of steps is at "
        "most that long; below: the first of them, one after the other. "
        f"{fitted['steps']:,} steps of {fitted['ranks']:,} ranks, as long as the slowest.</sub>"
    )
    styled(figure, title, "share of steps (%)", over)
    figure.update_xaxes(title_text="step", row=2, col=1)
    figure.update_yaxes(title_text=over, row=2, col=1)
    return figure
