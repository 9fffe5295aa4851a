"""A plotly figure as a few lines of text, for a terminal."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from dpsim.report.plots.picture import plain_title

if TYPE_CHECKING:
    import plotly.graph_objects as go

_FILLS = "█▓▒░▚▞"
_MARKS = "o+x*#@%&"
_HIGH = 12  # lines of a panel
_LONGEST = 28  # letters of a bar's name


def small(figure: go.Figure, width: int = 80) -> list[str]:
    """Return lines of at most ``width`` characters: stacked bars, or points of the first panel."""
    title = plain_title(figure).replace("<br>", " ")
    bars = [trace for trace in figure.data if trace.type == "bar"]
    lines = _bars(bars, width) if bars else _points(figure, width)
    return [title[:width], *lines]


def _bars(traces: list[Any], width: int) -> list[str]:
    """Return a line for each bar, its parts filled differently, and a legend below."""
    bars = _stacked(traces)
    longest = max(sum(parts) for parts in bars.values()) or 1.0
    margin = min(_LONGEST, max(map(len, bars)))
    # Beside the bar: two blanks, and a sum of four digits with its exponent.
    room = width - margin - 12
    lines = []
    for name, parts in bars.items():
        bar = _filled(parts, longest, room)
        lines.append(f"{name[:margin]:{margin}} {bar} {sum(parts):.4g}")
    for number, trace in enumerate(traces):
        if any(parts[number] for parts in bars.values()):
            lines.append(f"{_FILLS[number % len(_FILLS)]} {trace.name}")
    return lines


def _stacked(traces: list[Any]) -> dict[str, list[float]]:
    """Return the parts of each bar by its name, one from each trace."""
    lies = traces[0].orientation == "h"
    bars: dict[str, list[float]] = {}
    for number, trace in enumerate(traces):
        names, lengths = (trace.y, trace.x) if lies else (trace.x, trace.y)
        for name, length in zip(names, lengths, strict=True):
            parts = bars.setdefault(str(name).replace("<br>", " "), [0.0] * len(traces))
            parts[number] += float(length or 0)
    return bars


def _filled(parts: list[float], longest: float, room: int) -> str:
    """Return a bar of these parts; the longest bar fills the ``room``."""
    fills = ""
    begin = 0
    for number in range(len(parts)):
        # Ends are rounded instead of parts, so that errors do not add up, and equal sums have equal
        # length.
        share = sum(parts[: number + 1]) / longest
        end = round(room * min(max(share, 0.0), 1.0))
        fills += _FILLS[number % len(_FILLS)] * (end - begin)
        begin = end
    return fills


def _points(figure: go.Figure, width: int) -> list[str]:
    """Return lines with the points of the first panel, a letter for each trace."""
    panel = _panel(figure.data[0])
    across, up = (_Axis(figure.layout, name) for name in panel)
    traces = [trace for trace in figure.data if _panel(trace) == panel]
    marked: list[tuple[str, float, float]] = []
    for number, trace in enumerate(traces):
        for x, y in zip(trace.x, trace.y, strict=True):
            if across.shows(x) and up.shows(y):
                marked.append((_mark(number), across.place(x), up.place(y)))
    if not marked:
        return ["nothing to show"]

    _, xs, ys = zip(*marked, strict=True)
    wide, high = (min(xs), max(xs)), (min(ys), max(ys))
    room = width - 2
    grid = [[" "] * room for _ in range(_HIGH)]
    for mark, x, y in marked:
        # Lines count from the top, values from the bottom.
        line = _HIGH - 1 - _cell(y, high, _HIGH)
        grid[line][_cell(x, wide, room)] = mark

    lines = [f"|{''.join(line).rstrip()}" for line in grid]
    lines.append(f"+{'-' * room}")
    lines.append(
        f"across: {across.title or 'from'} {across.span(wide)}; up: {up.title} {up.span(high)}"
    )
    for number, trace in enumerate(traces):
        if trace.name:
            lines.append(f"{_mark(number)} {trace.name}")
    return lines


def _panel(trace: Any) -> tuple[str, str]:
    """Return the names of a trace's axes, which identify its panel."""
    return trace.xaxis or "x", trace.yaxis or "y"


def _mark(number: int) -> str:
    return _MARKS[number % len(_MARKS)]


class _Axis:
    """An axis of a figure, and the positions of values on it."""

    def __init__(self, layout: Any, name: str) -> None:
        axis = layout[f"{name[0]}axis{name[1:]}"]
        self.title: str = axis.title.text or ""
        self._is_log = axis.type == "log"

    def shows(self, value: Any) -> bool:
        """Return whether a value can be drawn: finite, and above 0 on a logarithmic axis."""
        is_number = isinstance(value, int | float) and math.isfinite(value)
        return is_number and (not self._is_log or value > 0)

    def place(self, value: float) -> float:
        """Return a value's position: its logarithm on a logarithmic axis."""
        return math.log(value) if self._is_log else float(value)

    def span(self, ends: tuple[float, float]) -> str:
        """Return the values at the lowest and the highest position."""
        low, high = (math.exp(end) if self._is_log else end for end in ends)
        return f"{low:.4g} to {high:.4g}"


def _cell(place: float, ends: tuple[float, float], room: int) -> int:
    """Return the number of the cell, of ``room`` between the ``ends``, for a position."""
    low, high = ends
    return 0 if high == low else round((place - low) / (high - low) * (room - 1))
