"""Ways to synchronise side by side: their step times, and the staleness of gradients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import plotly.graph_objects as go

from dpsim.base.units import TIME, human
from dpsim.engine import Result
from dpsim.report.figures.style import COLOURS, PART_COLOURS, line_of, rounded, set_style, time_unit

_POINTS = 200


def straggler_cost_figure(
    results: Mapping[str, Result], undisturbed: Mapping[str, Result]
) -> go.Figure:
    """Draw the share of throughput that each synchronisation keeps with slow workers.

    The best comes first. ``undisturbed`` has the results without slow workers, by the same names.
    """
    kept = {
        name: result.throughput_samples_per_s / undisturbed[name].throughput_samples_per_s
        for name, result in results.items()
        if name in undisturbed
    }
    names = sorted(kept, key=lambda name: -kept[name])
    figure = go.Figure()
    figure.add_bar(
        y=names,
        x=[100 * kept[name] for name in names],
        orientation="h",
        marker_color=PART_COLOURS["straggler_wait"],
        text=[
            f"{kept[name]:.1%}<br>{rounded(results[name].throughput_samples_per_s)} samples/s"
            for name in names
        ],
        textposition="auto",
        customdata=[
            f"{rounded(results[name].throughput_samples_per_s)} of "
            f"{rounded(undisturbed[name].throughput_samples_per_s)} samples/s"
            for name in names
        ],
        hovertemplate="%{y}: %{x:.1f} % kept, %{customdata}<extra></extra>",
        showlegend=False,
    )
    # plotly puts the first bar at the bottom.
    axis = {"autorange": "reversed"}
    height = 120 + 52 * max(len(names), 1)
    title = _kept_title(names, kept)
    return set_style(figure, title, "throughput kept (%)", "", yaxis=axis, height=height)


def _kept_title(names: Sequence[str], kept: Mapping[str, float]) -> str:
    if not names:
        return "Cost of slow workers"
    first, last = names[0], names[-1]
    title = f"With slow workers {first} keeps {kept[first]:.0%} of its throughput"
    return title if first == last else f"{title}, {last} {kept[last]:.0%}"


def step_times_figure(results: Mapping[str, Result]) -> go.Figure:
    """Draw the share of steps (of workers, in %) that took at most a given time.

    A curve for each of ``results``; times are logarithmic if they differ by a factor of two or
    more.
    """
    longest = max((float(each.steps.step.max()) for each in results.values()), default=1.0)
    factor, unit = time_unit(longest)
    figure = go.Figure()
    for number, (name, result) in enumerate(results.items()):
        share = np.linspace(0, 100, _POINTS)
        figure.add_scatter(
            # The number of points does not depend on the number of steps and workers.
            x=factor * result.step_time_within_s(share),
            y=share,
            name=f"{name} (mean {human(result.step_time_s['mean'], TIME, 4)})",
            line=line_of(number, width=2, shape="hv"),
        )

    shortest = min((float(each.steps.step.min()) for each in results.values()), default=1.0)
    figure.update_xaxes(**_times_axis(factor * shortest, factor * longest))
    title = "Distribution of step times"
    return set_style(figure, title, f"step time ({unit})", "steps (%)", hovermode="x unified")


def _times_axis(low: float, high: float) -> dict[str, Any]:
    if high < 2 * low:
        # Some margin if all steps are equal, or the axis would have only one number.
        return {"range": [0.95 * low, 1.05 * high]}
    ticks = [digit * 10.0**power for power in range(-3, 9) for digit in (1, 2, 5)]
    return {"type": "log", "tickvals": ticks, "tickformat": ","}


def staleness_by_kind_figure(results: Mapping[str, Result]) -> go.Figure:
    """Draw the share of gradients (%) by the updates between reading parameters and applying.

    Bars for each of ``results``.
    """
    figure = go.Figure()
    for number, (name, result) in enumerate(results.items()):
        versions = result.staleness["versions"]
        counts = np.array(versions["histogram"], dtype=float)
        figure.add_bar(
            x=np.arange(len(counts)),
            y=100 * counts / max(counts.sum(), 1),
            name=f"{name} (mean {versions['mean']:.3g}, most {versions['max']})",
            marker={"color": COLOURS[number % len(COLOURS)]},
        )
    figure.update_xaxes(rangemode="tozero")
    title = "Staleness: updates applied while a gradient was computed"
    return set_style(figure, title, "updates in between (count)", "gradients (%)", barmode="group")
