"""Tuned configurations as points of time against cost, with their front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dpsim.base.units import TIME, human
from dpsim.report.figures.style import COLOURS, styled
from dpsim.report.theme import COLOUR
from dpsim.studies.tune import Evaluation, Tuning

if TYPE_CHECKING:
    import plotly.graph_objects as go

_HOVER = "%{customdata}<br>time %{x:.4g} s, cost %{y:.4g}"


def front_figure(tuning: Tuning) -> go.Figure:
    """Time (s) against cost, both logarithmic.

    Every configuration that can be, the front, the best, and the file's own.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    _points(
        figure, "tried, with few steps", tuning.evaluations, {"color": COLOUR["grey"], "size": 7}
    )
    front = {"color": COLOURS[0], "size": 9}
    _points(
        figure,
        "front",
        tuning.front,
        front,
        mode="lines+markers",
        # In steps and not straight: no configuration is known between two points.
        line={"color": COLOURS[0], "shape": "hv"},
    )
    if isinstance(tuning.baseline, Evaluation):
        _points(
            figure,
            "as the file is",
            [tuning.baseline],
            {"color": COLOURS[5], "size": 13, "symbol": "diamond"},
        )
    _points(
        figure,
        f"best {tuning.objective.title}",
        [tuning.best],
        {"color": COLOURS[2], "size": 15, "symbol": "star"},
    )
    span = tuning.objective.span
    axes = {"xaxis": {"type": "log"}, "yaxis": {"type": "log"}}
    return styled(
        figure, _title(tuning), f"time {span} (s)", f"cost {span} ({tuning.unit})", **axes
    )


def _points(
    figure: go.Figure, name: str, points: Sequence[Evaluation], marker: dict[str, Any], **look: Any
) -> None:
    figure.add_scatter(
        name=name,
        x=[each.time_s for each in points],
        y=[each.cost for each in points],
        customdata=[_said(each) for each in points],
        marker=marker,
        hovertemplate=_HOVER,
        **{"mode": "markers", **look},
    )


def _said(evaluation: Evaluation) -> str:
    return (
        "<br>".join(f"{path}: {value}" for path, value in evaluation.values.items())
        or "nothing changed"
    )


def _title(tuning: Tuning) -> str:
    """The ends of the front; of one configuration, that it is both."""
    fastest, cheapest = tuning.front[0], tuning.front[-1]
    if fastest is cheapest:
        figures = f"{human(fastest.time_s, TIME)}, {fastest.cost:,.4g} {tuning.unit}"
        return f"One configuration is the fastest and the cheapest: {figures}"
    ends = (
        f"{human(each.time_s, TIME)} for {each.cost:,.4g} {tuning.unit}"
        for each in (fastest, cheapest)
    )
    return f"From {' to '.join(ends)}"
