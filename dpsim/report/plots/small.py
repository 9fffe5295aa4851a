"""A figure of plotly as a few lines of text, for a terminal."""

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
    """Lines of at most ``width`` characters: stacked bars, or points of the first panel."""
    title = plain_title(figure).replace("<br>", " ")
    bars = [trace for trace in figure.data if trace.type == "bar"]
    lines = _bars(bars, width) if bars else _points(figure, width)
    return [title[:width], *lines]


def _bars(traces: list[Any], width: int) -> list[str]:
    """A line for each bar, its parts filled differently, and what they are called below."""
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
    """The parts of each bar by its name, one of each trace."""
    lies = traces[0].orientation == "h"
    bars: dict[str, list[float]] = {}
    for number, trace in enumerate(traces):
        names, lengths = (trace.y, trace.x) if lies else (trace.x, trace.y)
        for name, length in zip(names, lengths, strict=True):
            parts = bars.setdefault(str(name).replace("<br>", " "), [0.0] * len(traces))
            parts[number] += float(length or 0)
    return bars


def _filled(parts: list[float], longest: float, room: int) -> str:
    """A bar of these parts, beside a longest one that fills the ``room``."""
    fills = ""
    begin = 0
    for number in range(len(parts)):
        # Ends are rounded, and not the parts: so errors do not add up, and equal sums are equally
        # long.
        share = sum(parts[: number + 1]) / longest
        end = round(room * min(max(share, 0.0), 1.0))
        fills += _FILLS[number % len(_FILLS)] * (end - begin)
        begin = end
    return fills


def _points(figure: go.Figure, width: int) -> list[str]:
    """Points of the traces of the first panel, a letter for each trace."""
    first = figure.data[0]
    panel = (first.xaxis or "x", first.yaxis or "y")
    across, up = (figure.layout[f"{name[0]}axis{name[1:]}"] for name in panel)
    traces = [each for each in figure.data if (each.xaxis or "x", each.yaxis or "y") == panel]
    marked = [
        (_MARKS[number % len(_MARKS)], point)
        for number, trace in enumerate(traces)
        for point in _shown_points(trace, across, up)
    ]
    if not marked:
        return ["nothing to show"]

    points = [point for _, point in marked]
    left, low = map(min, zip(*points, strict=True))
    right, high = map(max, zip(*points, strict=True))
    room = width - 2
    grid = [[" "] * room for _ in range(_HIGH)]
    for mark, (x, y) in marked:
        # Lines count from the top, values from the bottom.
        line = _HIGH - 1 - _place(y, low, high, _HIGH)
        grid[line][_place(x, left, right, room)] = mark

    span = f"{_back(across, left)} to {_back(across, right)}"
    rise = f"{_back(up, low)} to {_back(up, high)}"
    lines = [f"|{''.join(line).rstrip()}" for line in grid]
    lines.append(f"+{'-' * room}")
    lines.append(f"across: {across.title.text or 'from'} {span}; up: {up.title.text or ''} {rise}")
    for number, trace in enumerate(traces):
        if trace.name:
            lines.append(f"{_MARKS[number % len(_MARKS)]} {trace.name}")
    return lines


def _shown_points(trace: Any, across: Any, up: Any) -> list[tuple[float, float]]:
    """Its points that can be drawn, on the axes as they are: logarithms on logarithmic ones."""
    return [
        (_on(across, x), _on(up, y))
        for x, y in zip(trace.x, trace.y, strict=True)
        if _is_shown(across, x) and _is_shown(up, y)
    ]


def _is_shown(axis: Any, value: Any) -> bool:
    is_number = isinstance(value, int | float) and math.isfinite(value)
    return is_number and (axis.type != "log" or value > 0)


def _on(axis: Any, value: float) -> float:
    return math.log(value) if axis.type == "log" else float(value)


def _back(axis: Any, value: float) -> str:
    return f"{math.exp(value) if axis.type == 'log' else value:.4g}"


def _place(value: float, low: float, high: float, room: int) -> int:
    return 0 if high == low else round((value - low) / (high - low) * (room - 1))
