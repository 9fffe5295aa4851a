"""Figures over many runs: scaling, algorithms by size, and knobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import groupby
from math import log2, log10
from typing import Any

import plotly.graph_objects as go

from dpsim.base.units import DATA, human, plural
from dpsim.engine import Result
from dpsim.report.figures.style import (
    COLOURS,
    DASHES,
    Answer,
    answer,
    counts_axis,
    marker_of,
    set_style,
)
from dpsim.report.theme import COLOUR
from dpsim.studies.collective import CollectiveRow

_MOST_TICKS = 6
_BINARY = ("B", "KiB", "MiB", "GiB", "TiB")


def scaling_figure(results: Sequence[Result | Answer], current: int | None = None) -> go.Figure:
    """Draw the throughput of a GPU against workers: tokens/s for text, otherwise samples/s.

    It also draws the throughput of a GPU without communication, and the model's error as a band.
    ``current``: the number of workers whose point is ringed.
    """
    answers = sorted((answer(result) for result in results), key=lambda each: each["workers"])
    workers = [each["workers"] for each in answers]
    unit, key = "samples/s", "throughput_samples_per_s"
    if all(each.get("tokens_per_s") is not None for each in answers):
        unit, key = "tokens/s", "tokens_per_s"
    reached = [each[key] / each["workers"] for each in answers]
    efficiency = [each["scaling_efficiency"] for each in answers]
    # Efficiency is relative to as many workers without communication.
    ideal = [rate / share for rate, share in zip(reached, efficiency, strict=True)]

    figure = go.Figure()
    _add_band(figure, answers, reached)
    figure.add_scatter(
        x=workers,
        y=ideal,
        mode="lines",
        name="without communication",
        line={"color": COLOUR["grey"], "dash": "dash"},
        hoverinfo="skip",  # clicks select a point of the prediction, which may lie below
    )
    figure.add_scatter(
        x=workers,
        y=reached,
        mode="lines+markers",
        name="predicted",
        line={"color": COLOURS[0]},
        marker={"size": [14 if number == current else 7 for number in workers]},
        customdata=[
            [number * rate, share]
            for number, rate, share in zip(workers, reached, efficiency, strict=True)
        ],
        hovertemplate=(
            f"%{{x}} workers: %{{y:,.3s}} {unit} a GPU, %{{customdata[0]:,.3s}} in all, "
            "efficiency %{customdata[1]:.0%}"
        ),
    )

    title = (
        f"Efficiency {efficiency[0]:.0%} on {plural(workers[0], 'worker')}, "
        f"{efficiency[-1]:.0%} on {workers[-1]:,}"
    )
    axes = {"xaxis": counts_axis(workers), "yaxis": {"rangemode": "tozero"}}
    return set_style(figure, title, "workers", f"{unit} a GPU", **axes)


def _add_band(figure: go.Figure, answers: Sequence[Answer], rates: Sequence[float]) -> None:
    """Draw the interval of each rate by the model's error, if it is known."""
    bounded = [
        (each["workers"], rate, each["step_time_s"]["mean"], each["interval_s"])
        for each, rate in zip(answers, rates, strict=True)
        if each.get("interval_s")
    ]
    if not bounded:
        return
    # A longer step has a proportionally lower rate.
    ends = [(step / within["high"], step / within["low"]) for _, _, step, within in bounded]
    workers = [number for number, *_ in bounded]
    low = [rate * least for (_, rate, *_), (least, _) in zip(bounded, ends, strict=True)]
    high = [rate * most for (_, rate, *_), (_, most) in zip(bounded, ends, strict=True)]
    figure.add_scatter(
        x=[*workers, *workers[::-1]],
        y=[*low, *high[::-1]],
        fill="toself",
        fillcolor=f"rgba{(*(int(COLOURS[0][n : n + 2], 16) for n in (1, 3, 5)), 0.35)}",
        mode="lines",
        line={"width": 0},
        name="90 % interval",
        hoverinfo="skip",
    )


def algorithms_figure(rows: Sequence[CollectiveRow | Mapping[str, Any]]) -> go.Figure:
    """Draw time (us) against size (bytes), both logarithmic, a line for each algorithm.

    The fastest algorithm is named over its sizes.
    """
    every = [row.to_json() if isinstance(row, CollectiveRow) else row for row in rows]
    listed = [row for row in every if row["bytes"] > 0]  # a logarithmic axis has no 0
    algorithms = list(dict.fromkeys(str(row["algorithm"]) for row in listed))

    figure = go.Figure()
    for number, algorithm in enumerate(algorithms):
        points = [row for row in listed if row["algorithm"] == algorithm]
        points.sort(key=lambda row: row["bytes"])
        figure.add_scatter(
            x=[row["bytes"] for row in points],
            y=[row["time_s"] for row in points],
            mode="lines+markers",
            name=algorithm,
            line={
                "color": COLOURS[number % len(COLOURS)],
                "dash": DASHES[number // len(COLOURS) % len(DASHES)],
            },
            marker=marker_of(number),
            hovertemplate=f"{algorithm}<br>%{{x:,}} B: %{{y:.4s}}s",
        )

    fastest_ranges = winners(listed)
    for number, (low, high, algorithm) in enumerate(fastest_ranges):
        colour = COLOURS[algorithms.index(algorithm) % len(COLOURS)]
        figure.add_vrect(x0=low, x1=high, fillcolor=colour, opacity=0.1, line_width=0)
        # Adjacent names alternate between two heights, so that they do not cover each other.
        _add_name(figure, algorithm, low, high, lower=number % 2 == 1)

    ranges = ", ".join(f"{algorithm} from {_size(low)}" for low, _, algorithm in fastest_ranges)
    sizes = sorted({row["bytes"] for row in listed})
    few = sizes[:: -(-len(sizes) // _MOST_TICKS)]
    axes = {
        "xaxis": {"type": "log", "tickvals": few, "ticktext": [_size(size) for size in few]},
        "yaxis": {"type": "log", "dtick": 1, "tickformat": "~s", "ticksuffix": "s"},
    }
    return set_style(figure, f"Fastest: {ranges}", "size (bytes)", "time", **axes)


def _add_name(figure: go.Figure, name: str, low: float, high: float, *, lower: bool) -> None:
    """Write a name at the top over the sizes ``low`` to ``high``; vertical if that is narrow."""
    figure.add_annotation(
        x=(log10(low) + log10(high)) / 2,  # position on a logarithmic axis
        y=1.0,
        yref="paper",
        text=name,
        showarrow=False,
        textangle=-90 if high < 8 * low else 0,
        yshift=-16 if lower else 0,
    )


def _size(nbytes: float) -> str:
    """Return bytes in binary units if they are whole ones."""
    power = int(log2(nbytes) // 10) if nbytes >= 1 else 0
    whole = nbytes / 1024**power
    if 0 < power < len(_BINARY) and whole == int(whole):
        return f"{whole:.0f} {_BINARY[power]}"
    return human(nbytes, DATA, 3)


def winners(rows: Sequence[Mapping[str, Any]]) -> list[tuple[float, float, str]]:
    """Return the ranges of sizes in which one algorithm is the fastest.

    Each has its first size (bytes), the next range's first size, and the algorithm.
    """
    by_size = sorted(rows, key=lambda row: (row["bytes"], row["time_s"]))
    fastest = {
        size: str(next(alike)["algorithm"])
        for size, alike in groupby(by_size, key=lambda row: row["bytes"])
    }
    sizes = list(fastest)
    starts = [
        (algorithm, float(next(alike))) for algorithm, alike in groupby(sizes, fastest.__getitem__)
    ]
    # Each range extends to the next one's first size, because sizes in between were not timed.
    ends = [*(start for _, start in starts[1:]), *map(float, sizes[-1:])]
    return [(start, end, algorithm) for (algorithm, start), end in zip(starts, ends, strict=True)]


def knobs_figure(explanation: Mapping[str, Any]) -> go.Figure:
    """Draw the effect of each knob on the time per sample (%).

    ``explanation`` is the JSON object of ``dpsim explain FILE``.
    """
    turned = [knob for knob in explanation["knobs"] if knob["change"] is not None]
    gains = [100 * knob["change_per_sample"] for knob in turned]
    figure = go.Figure()
    figure.add_bar(
        y=[knob["change"] for knob in turned],
        x=gains,
        orientation="h",
        marker_color=[COLOURS[0] if gain < 0 else COLOURS[5] for gain in gains],
        text=[f"{gain:+.1f} %" for gain in gains],
        hovertemplate="%{y}: %{x:+.2f} %",
    )
    best = (
        f"{turned[0]['change']} gains most" if gains and gains[0] < 0 else "no knob gains anything"
    )
    axis = {"autorange": "reversed"}
    return set_style(
        figure,
        f"Limits: {best}",
        "change of the time per sample (%)",
        "",
        height=180 + 30 * len(turned),
        yaxis=axis,
    )
