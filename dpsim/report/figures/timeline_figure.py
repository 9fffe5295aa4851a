"""The activities of workers in one step, and when they wait."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby, pairwise
from typing import Any, NamedTuple

import plotly.graph_objects as go

from dpsim.base.units import TIME, human
from dpsim.engine import Interval
from dpsim.report.figures.style import PART_COLOURS, set_style, time_unit
from dpsim.report.theme import COLOUR, ink_on

_NARROW = 0.05  # of the step: narrower bars have no room for words, and would be only outline
_OUTLINE = "rgba(255, 255, 255, 0.6)"  # the line between two bars of a kind
_TOLERANCE = 1e-9  # share of the time shown; closer times are equal

# Names and colours of bars, in the order of a step.
_ACTIVITY_COLOURS = {
    "forward": PART_COLOURS["compute"],
    "backward": COLOUR["bluish green"],
    "encode": PART_COLOURS["encode"],
    "communication": PART_COLOURS["exposed_comm"],
    "input": PART_COLOURS["input"],
    "optimiser": COLOUR["grey"],
    "waiting": PART_COLOURS["straggler_wait"],
}
_ACTIVITY_OF = {"update": "optimiser", "decode": "encode"}


class _Bar(NamedTuple):
    """A bar of a timeline: its row, activity (in `_ACTIVITY_COLOURS`), name and times (s)."""

    row: str
    doing: str
    name: str
    start: float
    end: float


def timeline_figure(
    intervals: Sequence[Interval], called: Mapping[int, str] | None = None
) -> go.Figure:
    """Draw the intervals of a recorded step (`Run.intervals`) as bars over time.

    Times are in a suitable unit, from the first interval on. Each worker has rows for computing,
    communication and loading. ``called`` has names of workers, by default their numbers. Passes are
    numbered if there are several. Gaps in a worker's computing are waiting.
    """
    begin = min((each.start for each in intervals), default=0.0)
    span = max((each.end for each in intervals), default=0.0) - begin
    factor, unit = time_unit(span)
    bars = list(_bars(intervals, called or {}, _TOLERANCE * span))

    figure = go.Figure()
    for doing in _ACTIVITY_COLOURS:
        alike = [bar for bar in bars if bar.doing == doing]
        if alike:
            figure.add_bar(**_bar_trace(doing, alike, begin, span, factor))

    rows = list(dict.fromkeys(bar.row for bar in bars))
    axis = {"autorange": "reversed", "categoryorder": "array", "categoryarray": rows}
    return set_style(
        figure,
        f"One step of {_subject(intervals, called)}",
        f"time ({unit})",
        "",
        barmode="overlay",
        bargap=0.2,
        # A phone shows one legend entry per line, in up to half the figure.
        height=250 + 40 * len(rows),
        yaxis=axis,
    )


def _bar_trace(
    doing: str, bars: Sequence[_Bar], begin: float, span: float, factor: float
) -> dict[str, Any]:
    """Return the bars of one kind for plotly, from ``begin`` on, times multiplied by ``factor``."""
    colour, waits = _ACTIVITY_COLOURS[doing], doing == "waiting"
    is_wide = [bar.end - bar.start >= _NARROW * span for bar in bars]
    texts = []
    for bar in bars:
        lasts, since = human(bar.end - bar.start, TIME), human(bar.start - begin, TIME)
        texts.append(f"{bar.name}<br>{lasts}, from {since} on")
    hatching = {"shape": "/" if waits else "", "fgcolor": colour, "fgopacity": 0.8, "size": 6}
    return {
        "name": "encode, decode" if doing == "encode" else doing,
        "y": [bar.row for bar in bars],
        "x": [factor * (bar.end - bar.start) for bar in bars],
        "base": [factor * (bar.start - begin) for bar in bars],
        "orientation": "h",
        # Waiting is hatched instead of filled.
        "marker": {
            "color": "rgba(0, 0, 0, 0)" if waits else colour,
            "pattern": hatching,
            "line": {"color": _OUTLINE, "width": [float(wide) for wide in is_wide]},
        },
        "text": [
            bar.name.partition(":")[0] if wide else ""
            for bar, wide in zip(bars, is_wide, strict=True)
        ],
        "textposition": "inside",
        "insidetextanchor": "middle",
        "textangle": 0,
        "textfont": {} if waits else {"color": ink_on(colour)},
        "customdata": texts,
        "hovertemplate": "%{y}<br>%{customdata}<extra></extra>",
    }


def called_by(workers: Mapping[str, int]) -> dict[int, str]:
    """Return the timeline's names for some of `Run.extremes`: ``worker 28 (typical)``."""
    called: dict[int, str] = {}
    # A worker may have several roles; a single worker has all of them.
    for who, number in workers.items():
        called.setdefault(number, f"worker {number} ({who})")
    return called


def _subject(intervals: Sequence[Interval], called: Mapping[int, str] | None) -> str:
    workers = {each.worker for each in intervals}
    if len(workers) != 1:
        return "each worker"
    (worker,) = workers
    return (called or {}).get(worker, f"worker {worker}")


def _bars(intervals: Sequence[Interval], called: Mapping[int, str], close: float) -> Iterator[_Bar]:
    """Yield the bars of all workers, one worker after the other."""
    one_worker = len({each.worker for each in intervals}) == 1
    # `Run.intervals` is grouped by worker.
    for worker, group in groupby(intervals, lambda each: each.worker):
        activities = list(group)
        # The title names a single worker.
        name = "" if one_worker else f"{called.get(worker, f'worker {worker}')}<br>"
        computing, sent, loaded = (
            [each for each in activities if each.stream == stream]
            for stream in ("compute", "communication", "input")
        )
        begin, end = min(each.start for each in activities), max(each.end for each in activities)
        yield from _computing(f"{name}computes", computing, begin, end, close)
        yield from _lanes(f"{name}sends", "communication", sent, close)
        yield from _lanes(f"{name}loads", "input", loaded, close)


def _computing(
    row: str, activities: Sequence[Interval], begin: float, end: float, close: float
) -> Iterator[_Bar]:
    """Yield passes, each as one bar while nothing interrupts it, and the waiting in between."""
    bars: list[_Bar] = []
    until = begin
    # A bar that begins later than the last one ended was waited for. Intervals of layers meet
    # within rounding, hence ``close``.
    for bar in _computing_bars(row, activities):
        waited = bar.start - until > close
        if bars and bar.name == bars[-1].name and not waited:
            bars[-1] = bars[-1]._replace(end=bar.end)
        else:
            if waited:
                bars.append(_Bar(row, "waiting", "waits", until, bar.start))
            bars.append(bar)
        until = bar.end
    yield from bars
    if end - until > close:
        yield _Bar(row, "waiting", "waits", until, end)


def _computing_bars(row: str, activities: Sequence[Interval]) -> Iterator[_Bar]:
    """Yield computing, with the numbers of passes if there are several.

    Forward after backward begins a new pass.
    """
    texts = [each.name.partition(" ")[0] for each in activities]
    passes = [word for word in texts if word in ("forward", "backward")]
    several = ("backward", "forward") in pairwise(passes)
    number, before = 1, ""
    for each, word in zip(activities, texts, strict=True):
        name = _ACTIVITY_OF.get(word, word) if word == "update" else each.name
        if word in ("forward", "backward"):
            number += (before, word) == ("backward", "forward")
            before, name = word, f"{word} {number}" if several else word
        yield _Bar(row, _ACTIVITY_OF.get(word, word), name, each.start, each.end)


def _lanes(row: str, doing: str, activities: Sequence[Interval], close: float) -> Iterator[_Bar]:
    """Yield the intervals of a stream; those that overlap with others are in rows below."""
    free: list[float] = []
    for each in activities:
        lane = next((at for at, end in enumerate(free) if each.start >= end - close), len(free))
        # If all lanes are in use, the slice is empty and the assignment adds a lane.
        free[lane : lane + 1] = [each.end]
        name = row if lane == 0 else f"{row} ({lane + 1})"
        # Turn "bucket3: all-reduce" into "bucket 3: all-reduce".
        spaced = re.sub(r"(?<=[a-z])(?=\d)", " ", each.name)
        yield _Bar(name, doing, spaced, each.start, each.end)
