"""Figures of steps: the parts of a step, and the distribution of step times."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import plotly.graph_objects as go

from dpsim.base.arrays import FloatArray
from dpsim.base.units import TIME, human
from dpsim.engine import PARTS, Result
from dpsim.report.figures.style import COLOURS, PART_COLOURS, Answer, answer, set_style, time_unit
from dpsim.report.theme import ink_on

_MOST_BARS = 60
_FEW_BARS = 2  # the most bars whose numbers fit in a line of the legend
_NARROW = 0.07  # of a bar of a step: narrower parts have no room for words


def breakdown_figure(results: Sequence[Result | Answer], names: Sequence[str] = ()) -> go.Figure:
    """Draw the parts of the mean step of each result as one stacked bar, in a suitable unit.

    Bars have ``names``, by default the results' own. Parts with enough room show time and share;
    with one or two bars the legend also shows the other parts.
    """
    answers = [answer(result) for result in results]
    labels = list(names) or [str(each["name"]) for each in answers]
    steps = [float(each["step_time_s"]["mean"]) for each in answers]
    factor, unit = time_unit(max(steps))

    figure = go.Figure()
    for name, part in PARTS.items():
        seconds = [float(each["parts_s"][name]) for each in answers]
        if not any(seconds):
            continue
        shares = [part_s / step for part_s, step in zip(seconds, steps, strict=True)]
        # Compare with the longest bar, because all bars share an axis.
        has_room = [value >= _NARROW * max(steps) for value in seconds]
        figure.add_bar(
            name=part.title if all(has_room) else _in_legend(part.title, seconds, shares),
            y=labels,
            x=[factor * value for value in seconds],
            orientation="h",
            marker_color=PART_COLOURS[name],
            text=[
                f"{human(value, TIME, 3)}<br>{share:.0%}" if room else ""
                for value, share, room in zip(seconds, shares, has_room, strict=True)
            ],
            textposition="inside",
            insidetextanchor="middle",
            textangle=0,
            textfont={"color": ink_on(PART_COLOURS[name])},
            customdata=[
                f"{human(value, TIME)}, {share:.1%} of the step"
                for value, share in zip(seconds, shares, strict=True)
            ],
            hovertemplate=f"%{{y}}<br>{part.title}: %{{customdata}}<extra></extra>",
        )

    title = (
        "Breakdown of the step time"
        if len(labels) > 1
        else f"Breakdown of a step of {human(steps[0], TIME, 4)}"
    )
    return set_style(
        figure,
        title,
        f"mean time of a step ({unit})",
        "",
        barmode="stack",
        bargap=0.15,
        height=180 + 56 * len(labels),
        yaxis={"autorange": "reversed"},
    )


def _in_legend(title: str, seconds: Sequence[float], shares: Sequence[float]) -> str:
    """Return a legend entry with the part's time in one or two bars, which may be too narrow."""
    if len(seconds) > _FEW_BARS:
        return title
    times = " / ".join(human(value, TIME, 3) for value in seconds)
    if len(shares) > 1:
        # Two times beside the whole title are wider than a phone.
        return f"{title.partition(' (')[0]}: {times}"
    return f"{title}: {times}, {shares[0]:.0%}"


def _ends(times: FloatArray) -> tuple[float, float]:
    """Return the minimum and maximum of ``times``, slightly extended if they are equal."""
    # numpy adds half a unit on both sides of equal ends, which in seconds may be many steps.
    least, most = float(times.min()), float(times.max())
    return (least, most) if most - least > 1e-9 * most else (0.999 * least, 1.001 * most or 1.0)


def step_distribution_figure(result: Result) -> go.Figure:
    """Draw the distribution of step times over all steps and workers.

    The mean and the 95th percentile are marked.
    """
    factor, unit = time_unit(float(result.steps.step.max()))
    times = factor * result.steps.step.ravel()
    # The square-root rule, limited to as many bars as are distinguishable on a page.
    bars = min(_MOST_BARS, max(10, round(np.sqrt(len(times)))))
    count, edges = np.histogram(times, bins=bars, range=_ends(times))

    figure = go.Figure()
    figure.add_bar(
        x=(edges[:-1] + edges[1:]) / 2,
        y=count / len(times),
        width=np.diff(edges),
        marker_color=COLOURS[0],
        name="steps",
        hovertemplate=f"about %{{x:.4g}} {unit}: %{{y:.1%}} of the steps",
    )
    # Write the two labels at two heights, because the lines may be close to each other.
    for name, dash, seconds, lower in (
        ("mean", "solid", result.step_time_s["mean"], 0),
        ("95th percentile", "dash", result.step_time_s["p95"], 18),
    ):
        value = factor * seconds
        figure.add_vline(
            x=value,
            line={"color": COLOURS[5], "dash": dash},
            annotation={"text": f"{name} {value:.4g} {unit}", "yshift": -lower},
        )

    title = f"How long steps take: {result.steps.step.shape[0]} steps of {result.workers} workers"
    return set_style(
        figure,
        title,
        f"step time ({unit})",
        "share of all steps",
        yaxis={"tickformat": ".0%"},
        bargap=0,
    )
