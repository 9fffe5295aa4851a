"""Strategies over time, one below the other, and the staleness window of a worker under SSP."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise, product
from typing import NamedTuple

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from dpsim.engine import Interval
from dpsim.report.figures.style import PART_COLOURS, in_mode, time_unit
from dpsim.report.theme import COLOUR, ink_on
from dpsim.studies.lanes import Lane, Seen, Window

_TOLERANCE = 5e-4  # of the time shown: half a pixel; closer times are equal
# Heights in pixels of a worker's row, between two lanes, of title and legend, and of the axis.
_ROW_HEIGHT, _LANE_GAP, _TOP_MARGIN, _BOTTOM_MARGIN = 30, 46, 130, 50
_NARROW = 0.025  # of the time shown: narrower bars have no room for a number
_HEAD = {
    "x": 0.01,
    "xref": "container",
    "y": 1,
    "yanchor": "top",
    "pad": {"t": 12},
    "font": {"size": 16},
}
# The drawn parts in the order of a step: colour, and place in a worker's row (computing above).
_ABOVE, _BELOW = (-0.42, 0.44), (0.08, 0.3)
_DOING = {
    "forward": (PART_COLOURS["compute"], _ABOVE),
    "backward": (COLOUR["bluish green"], _ABOVE),
    "optimiser": (COLOUR["grey"], _ABOVE),
    "waiting": (PART_COLOURS["straggler_wait"], _ABOVE),
    "sends and receives": (PART_COLOURS["exposed_comm"], _BELOW),
    "all-gather": (COLOUR["sky blue"], _BELOW),
    "reduce-scatter": (COLOUR["reddish purple"], _BELOW),
}
_ACTIVITY_OF = {"update": "optimiser"}
_WINDOW_LOOKS: dict[Seen, tuple[str, str]] = {
    "guaranteed": (COLOUR["blue"], "seen by all: guaranteed by SSP"),
    "own": (COLOUR["bluish green"], "its own: always seen"),
    "in the window": (COLOUR["sky blue"], "in the window, arrived by chance"),
    "not yet": (COLOUR["grey"], "in the window, not arrived yet"),
}


class _Bar(NamedTuple):
    """An activity of a worker in a step, with start and end (s)."""

    worker: int
    doing: str
    step: int
    name: str
    start: float
    end: float


def lanes_figure(lanes: Sequence[Lane], title: str) -> go.Figure:
    """Draw a panel for each lane over a common time axis.

    Each worker has a row: computing above, with the step's number, and communication below; gaps in
    computing are waiting.
    """
    bars = [list(_bars(lane)) for lane in lanes]
    end = max((bar.end for lane in bars for bar in lane), default=0.0)
    workers = max((bar.worker for lane in bars for bar in lane), default=0) + 1
    height = _TOP_MARGIN + _BOTTOM_MARGIN + len(lanes) * (workers * _ROW_HEIGHT + _LANE_GAP)
    figure = make_subplots(
        rows=len(lanes),
        cols=1,
        shared_xaxes=True,
        # plotly refuses rows whose gaps alone fill the height.
        vertical_spacing=min(_LANE_GAP / height, 1 / max(len(lanes), 1)),
        subplot_titles=[lane.name for lane in lanes],
    )

    factor, unit = time_unit(end)
    shown: set[str] = set()
    for (row, lane), doing in product(enumerate(bars, 1), _DOING):
        alike = [bar for bar in lane if bar.doing == doing]
        if alike:
            trace = _trace(doing, alike, factor, unit, end)
            figure.add_bar(**trace, showlegend=doing not in shown, row=row, col=1)
            shown.add(doing)

    names = [str(worker) for worker in range(workers)]
    # Descending, so that worker 0 is on top.
    figure.update_yaxes(
        autorange=None, range=[workers - 0.5, -0.5], tickvals=[*range(workers)], ticktext=names
    )
    figure.update_xaxes(range=[0, factor * end])
    figure.update_xaxes(title_text=f"time ({unit})", row=len(lanes), col=1)
    # So far the only annotations are the panel titles.
    figure.update_annotations(x=0, xanchor="left", font={"size": 13})
    figure.update_layout(
        title={**_HEAD, "text": title},
        barmode="overlay",
        height=height,
        # Place the legend 26 pixels above the first panel; plotly's unit is the panels' height.
        legend={
            "orientation": "h",
            "x": 0,
            "y": 1 + 26 / (height - _TOP_MARGIN - _BOTTOM_MARGIN),
            "yanchor": "bottom",
        },
        margin={"l": 40, "r": 20, "t": _TOP_MARGIN, "b": _BOTTOM_MARGIN},
    )
    return in_mode(figure)


def _trace(
    doing: str, bars: Sequence[_Bar], factor: float, unit: str, end: float
) -> dict[str, object]:
    colour, (offset, width) = _DOING[doing]
    waits = doing == "waiting"
    hatched = {"shape": "/", "fgcolor": colour, "fgopacity": 0.8, "size": 5}
    numbers = [
        str(bar.step + 1) if doing == "forward" and bar.end - bar.start > _NARROW * end else ""
        for bar in bars
    ]
    return {
        "name": doing,
        "legendgroup": doing,
        "y": [bar.worker for bar in bars],
        "x": [factor * (bar.end - bar.start) for bar in bars],
        "base": [factor * bar.start for bar in bars],
        "offset": offset,
        "width": width,
        "orientation": "h",
        "marker": {
            "color": "rgba(0, 0, 0, 0)" if waits else colour,
            "pattern": hatched if waits else {"shape": ""},
        },
        "text": numbers,
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "constraintext": "none",  # by default plotly shrinks numbers to half a row's height
        "textfont": {} if waits else {"color": ink_on(colour), "size": 11},
        "customdata": [f"step {bar.step + 1}: {bar.name}" for bar in bars],
        "hovertemplate": "worker %{y}, %{customdata}<br>%{x:.4g} "
        f"{unit} from %{{base:.4g}} on<extra></extra>",
    }


def _bars(lane: Lane) -> Iterator[_Bar]:
    """Yield the intervals of a lane, merged if they touch, and waiting between computing."""
    every = [
        _Bar(each.worker, _doing(each), step, each.name, each.start, each.end)
        for step, intervals in enumerate(lane.steps)
        for each in intervals
    ]
    end = max((bar.end for bar in every), default=0.0)
    workers = {bar.worker for bar in every}
    close = _TOLERANCE * end
    for worker in sorted(workers):
        sent: list[_Bar] = []
        computing: list[_Bar] = []
        activities = (bar for bar in every if bar.worker == worker)
        for bar in sorted(activities, key=lambda bar: bar.start):
            row = sent if _DOING[bar.doing][1] is _BELOW else computing
            last = row[-1] if row else bar
            gap, is_alike = bar.start - last.end, (bar.doing, bar.step) == (last.doing, last.step)
            if row and is_alike and row is computing and gap <= close:
                # The worker does not wait between the two activities.
                row[-1] = last._replace(end=bar.end)
            elif row and is_alike and row is sent and max(gap, bar.end - bar.start) < close:
                # The two transfers are too short to be distinguished.
                name = f"{last.name.partition(' to ')[0]} to {bar.name}"
                row[-1] = last._replace(name=name, end=max(last.end, bar.end))
            else:
                row.append(bar)
        yield from sent
        yield from computing
        # Communication may overlap, and does not show waiting.
        for last, bar in pairwise(computing):
            if bar.start - last.end > close:
                yield _Bar(worker, "waiting", bar.step, "waits", last.end, bar.start)


def _doing(each: Interval) -> str:
    """Return the activity as which an interval is drawn."""
    if each.stream == "compute":
        word = each.name.partition(" ")[0]
        word = _ACTIVITY_OF.get(word, word)
        return word if word in _DOING else "optimiser"
    operation = each.name.rpartition(": ")[2]
    return operation if operation in _DOING else "sends and receives"


def window_figure(window: Window) -> go.Figure:
    """Draw which updates of each worker are visible to a worker under SSP when it begins a step."""
    figure = go.Figure()
    for seen, (colour, words) in _WINDOW_LOOKS.items():
        places = [
            (step, worker)
            for worker, row in enumerate(window.seen)
            for step, each in enumerate(row)
            if each == seen
        ]
        figure.add_scatter(
            x=[step + 1 for step, _ in places],
            y=[worker for _, worker in places],
            mode="markers",
            name=words,
            marker={
                "symbol": "square-open" if seen == "not yet" else "square",
                "size": 20,
                "color": colour,
            },
            hovertemplate=f"step %{{x}} of worker %{{y}}: {words}<extra></extra>",
        )

    oldest = window.clock - window.staleness + 0.5
    for at, words in ((oldest, "window begins"), (window.clock + 0.5, "now")):
        figure.add_vline(
            at, line={"dash": "dash", "width": 1}, annotation={"text": words, "yanchor": "bottom"}
        )

    workers = len(window.seen)
    figure.update_layout(
        title={
            **_HEAD,
            "text": f"Updates read by worker {window.worker} before step {window.clock + 1}",
        },
        height=190 + 40 * workers,
        legend={"orientation": "h", "x": 0, "y": -0.35, "yanchor": "top"},
        margin={"l": 70, "r": 20, "t": 80, "b": 90},
        xaxis={"title": "step of each worker", "dtick": 1, "zeroline": False},
        yaxis={
            "title": "worker",
            "tickvals": [*range(workers)],
            "range": [workers - 0.5, -0.5],
            "zeroline": False,
        },
    )
    return in_mode(figure)
