"""Tuned configurations as points of time against cost, with their front."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dpsim.base.units import TIME, human
from dpsim.report.figures.style import COLOURS, styled
from dpsim.report.theme import COLOUR
from dpsim.studies.tune import Evaluation, Tuning

if TYPE_CHECKING:
    import plotly.graph_objects as go


_HOVER = "%{customdata}<br>%{x:.4g}, %{y:.4g}"
_AXES = {"xaxis": {"type": "log"}, "yaxis": {"type": "log"}}


class LabelledPoint(NamedTuple):
    """A labelled point of two figures, of which less is better."""

    x: float
    y: float
    label: str


def front_figure(tuning: Tuning) -> go.Figure:
    """Draw time (s) against cost, both logarithmic.

    Shows every possible configuration, the front, the best, and the file's own.
    """
    import plotly.graph_objects as go

    figure = go.Figure()
    tried, front = (list(map(_said, each)) for each in (tuning.evaluations, tuning.front))
    _tried_and_front(figure, "tried, with few steps", tried, front)
    if isinstance(tuning.baseline, Evaluation):
        mark = {"color": COLOURS[5], "size": 13, "symbol": "diamond"}
        _points(figure, "as the file is", [_said(tuning.baseline)], mark)
    best = {"color": COLOURS[2], "size": 15, "symbol": "star"}
    _points(figure, f"best {tuning.objective.title}", [_said(tuning.best)], best)
    span = tuning.objective.span
    return styled(
        figure, _title(tuning), f"time {span} (s)", f"cost {span} ({tuning.unit})", **_AXES
    )


def points_figure(
    x: str, y: str, *, all_points: Sequence[LabelledPoint], front: Sequence[LabelledPoint]
) -> go.Figure:
    """Draw columns ``x`` and ``y`` of all points of a sweep, and its Pareto front."""
    import plotly.graph_objects as go

    figure = go.Figure()
    _tried_and_front(figure, "all points", all_points, front)
    title = f"{len(front)} of {len(all_points)} points are beaten by none in both"
    return styled(figure, title, x.replace("_", " "), y.replace("_", " "), **_AXES)


def _tried_and_front(
    figure: go.Figure,
    name: str,
    tried: Sequence[LabelledPoint],
    front: Sequence[LabelledPoint],
) -> None:
    _points(figure, name, tried, {"color": COLOUR["grey"], "size": 7})
    # In steps, not straight lines: no configuration is known between two points.
    look = {"mode": "lines+markers", "line": {"color": COLOURS[0], "shape": "hv"}}
    _points(figure, "front", front, {"color": COLOURS[0], "size": 9}, **look)


def _points(
    figure: go.Figure,
    name: str,
    points: Sequence[LabelledPoint],
    marker: dict[str, Any],
    **look: Any,
) -> None:
    figure.add_scatter(
        name=name,
        x=[each.x for each in points],
        y=[each.y for each in points],
        customdata=[each.label for each in points],
        marker=marker,
        hovertemplate=_HOVER,
        **{"mode": "markers", **look},
    )


def _said(evaluation: Evaluation) -> LabelledPoint:
    values = "<br>".join(f"{path}: {value}" for path, value in evaluation.values.items())
    return LabelledPoint(evaluation.time_s, evaluation.cost, values or "nothing changed")


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
