"""Figures of one step: where its time goes, what each worker does when, how long steps are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.engine import PARTS, Interval, Result
from dpsim.report.figures.style import COLOURS, PART_COLOURS, Answer, answer, styled
from dpsim.report.theme import COLOUR

if TYPE_CHECKING:
    import plotly.graph_objects as go

_MILLI = 1e3
_MOST_BARS = 60
_STREAM_COLOURS = {
    "input": PART_COLOURS["input"],
    "communication": PART_COLOURS["exposed_comm"],
}
_BOTH = "forward and backward"
_PASS_COLOURS = {
    "forward": PART_COLOURS["compute"],
    "backward": COLOUR["bluish green"],
    _BOTH: COLOUR["bluish green"],
    "update": COLOUR["grey"],
    "encode": PART_COLOURS["encode"],
    "decode": PART_COLOURS["encode"],
}


def breakdown_figure(results: Sequence[Result | Answer], names: Sequence[str] = ()) -> go.Figure:
    """The parts of the mean step of each result as one stacked bar (ms).

    Bars are named ``names``, or as the results are.
    """
    import plotly.graph_objects as go

    answers = [answer(result) for result in results]
    labels = list(names) or [str(each["name"]) for each in answers]
    figure = go.Figure()
    for name, part in PARTS.items():
        seconds = [each["parts_s"][name] for each in answers]
        if any(seconds):
            shares = [
                part_s / each["step_time_s"]["mean"]
                for part_s, each in zip(seconds, answers, strict=True)
            ]
            figure.add_bar(
                name=part.title,
                y=labels,
                x=[_MILLI * value for value in seconds],
                orientation="h",
                marker_color=PART_COLOURS[name],
                customdata=shares,
                hovertemplate="%{y}<br>%{x:.4g} ms, %{customdata:.1%} of the step",
            )
    height = 180 + 34 * len(labels)
    title = (
        "Where the time of a step goes"
        if len(labels) > 1
        else f"Where the {_mean(answers[0]):.4g} ms of a step go"
    )
    return styled(
        figure,
        title,
        "mean time of a step (ms)",
        "",
        barmode="stack",
        height=height,
        yaxis={"autorange": "reversed"},
    )


def _mean(each: Answer) -> float:
    return float(each["step_time_s"]["mean"]) * _MILLI


def timeline_figure(intervals: Sequence[Interval]) -> go.Figure:
    """The intervals of a recorded step (`Run.intervals`) as bars over time.

    In ms from the first, a row for a stream of a worker.
    """
    import plotly.graph_objects as go

    begin = min((each.start for each in intervals), default=0.0)
    figure = go.Figure()
    for kind, colour in (_STREAM_COLOURS | _PASS_COLOURS).items():
        alike = [each for each in intervals if _kind(each) == kind]
        if alike:
            figure.add_bar(
                name=kind,
                y=[f"worker {each.worker} {each.stream}" for each in alike],
                x=[_MILLI * (each.end - each.start) for each in alike],
                base=[_MILLI * (each.start - begin) for each in alike],
                orientation="h",
                marker={"color": colour},
                text=[each.name for each in alike],
                textposition="none",
                hovertemplate="%{y}<br>%{text}<br>%{base:.4g} ms, for %{x:.4g} ms",
            )
    rows = len({(each.worker, each.stream) for each in intervals})
    axis = {"autorange": "reversed", "categoryorder": "category ascending"}
    title = "What each worker's streams do in one step"
    return styled(
        figure, title, "time (ms)", "", barmode="overlay", height=220 + 24 * rows, yaxis=axis
    )


def _kind(interval: Interval) -> str:
    if interval.stream != "compute":
        return interval.stream
    word = interval.name.partition(" ")[0]
    return word if word in _PASS_COLOURS else _BOTH if word == "passes" else "forward"


def _ends(times: FloatArray) -> tuple[float, float]:
    """The least and the greatest of ``times``.

    Where they are as good as one, a thousandth below and above it.
    """
    least, most = float(times.min()), float(times.max())
    return (least, most) if most - least > 1e-9 * most else (0.999 * least, 1.001 * most or 1.0)


def step_distribution_figure(result: Result) -> go.Figure:
    """How often a worker's step took how long (ms), over all steps and workers.

    The mean and the 95th percentile are marked.
    """
    import plotly.graph_objects as go

    times = _MILLI * result.steps.step.ravel()
    bars = min(_MOST_BARS, max(10, round(np.sqrt(len(times)))))
    count, edges = np.histogram(times, bins=bars, range=_ends(times))
    figure = go.Figure()
    figure.add_bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=count / len(times),
        width=np.diff(edges),
        marker_color=COLOURS[0],
        name="steps",
        hovertemplate="about %{x:.4g} ms: %{y:.1%} of the steps",
    )
    for name, dash, value in (
        ("mean", "solid", times.mean()),
        ("95th percentile", "dash", np.percentile(times, 95)),
    ):
        figure.add_vline(
            x=float(value),
            line={"color": COLOURS[5], "dash": dash},
            annotation={"text": f"{name} {value:.4g} ms"},
        )
    title = f"How long steps take: {result.steps.step.shape[0]} steps of {result.workers} workers"
    return styled(
        figure, title, "step time (ms)", "share of all steps", yaxis={"tickformat": ".0%"}, bargap=0
    )
