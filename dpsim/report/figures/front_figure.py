"""Tuned configurations as points of time against cost, with their front."""

from __future__ import annotations

import plotly.graph_objects as go

from dpsim.base.units import TIME, human
from dpsim.report.figures.style import COLOURS, set_style
from dpsim.report.theme import COLOUR
from dpsim.studies.tune import Evaluation, Tuning


def front_figure(tuning: Tuning) -> go.Figure:
    """Draw time (s) against cost, both logarithmic.

    Shows every possible configuration, the front, the best, and the file's own.
    """
    figure = go.Figure()
    # The line has steps, because no configuration is known between two points.
    steps = {"mode": "lines+markers", "line": {"color": COLOURS[0], "shape": "hv"}}
    baseline = [tuning.baseline] if isinstance(tuning.baseline, Evaluation) else []
    best = f"best {tuning.objective.title}"
    for name, shown, marker, look in (
        ("tried, with few steps", tuning.evaluations, {"color": COLOUR["grey"], "size": 7}, {}),
        ("front", tuning.front, {"color": COLOURS[0], "size": 9}, steps),
        ("as the file is", baseline, {"color": COLOURS[5], "size": 13, "symbol": "diamond"}, {}),
        (best, [tuning.best], {"color": COLOURS[2], "size": 15, "symbol": "star"}, {}),
    ):
        if shown:
            figure.add_scatter(
                name=name,
                x=[each.time_s for each in shown],
                y=[each.cost for each in shown],
                customdata=[_hover_text(each) for each in shown],
                marker=marker,
                hovertemplate="%{customdata}<br>%{x:.4g}, %{y:.4g}",
                **{"mode": "markers", **look},
            )
    span = tuning.span
    axes = {"xaxis": {"type": "log"}, "yaxis": {"type": "log"}}
    return set_style(
        figure, _title(tuning), f"time {span} (s)", f"cost {span} ({tuning.unit})", **axes
    )


def _hover_text(evaluation: Evaluation) -> str:
    values = "<br>".join(f"{path}: {value}" for path, value in evaluation.values.items())
    return values or "nothing changed"


def _title(tuning: Tuning) -> str:
    """Return a title with the ends of the front, which may be a single configuration."""
    fastest, cheapest = tuning.front[0], tuning.front[-1]
    if fastest is cheapest:
        figures = f"{human(fastest.time_s, TIME)}, {fastest.cost:,.4g} {tuning.unit}"
        return f"One configuration is the fastest and the cheapest: {figures}"
    ends = (
        f"{human(each.time_s, TIME)} for {each.cost:,.4g} {tuning.unit}"
        for each in (fastest, cheapest)
    )
    return f"From {' to '.join(ends)}"
