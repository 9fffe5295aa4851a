"""A sweep's results as points: one column against another, with the Pareto front."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import plotly.graph_objects as go

from dpsim.base.units import plural
from dpsim.report.figures.style import COLOURS, marker_of, set_style, time_unit
from dpsim.report.theme import COLOUR
from dpsim.studies.front import pareto_front

Aim = Literal["least", "most"]
Value = float | int | str | bool | None

_WORDS = {
    "tokens_per_s": "tokens/s",
    "tokens_per_s_per_gpu": "tokens/s per GPU",
    "mfu": "MFU",
    "hfu": "HFU",
    "tflops_per_gpu": "TFLOP/s per GPU",
}


def columns_figure(
    rows: Sequence[dict[str, Value]],
    across: str,
    up: str,
    colour: str | None = None,
    aims: tuple[Aim, Aim] | None = None,
) -> go.Figure:
    """Draw column ``up`` of ``rows`` against ``across``, grouped by the values of ``colour``.

    With ``aims`` the front is drawn too, if both columns are numeric. Rows that lack one of the two
    are left out, and the title says how many.
    """
    kept = [row for row in rows if row.get(across) is not None and row.get(up) is not None]
    titles = {column: _scale_and_title(kept, column) for column in dict.fromkeys((across, up))}
    x_title, y_title = titles[across], titles[up]
    groups: dict[str, list[dict[str, Value]]] = {}
    for row in kept:
        group = "" if colour is None else str(row.get(colour))
        groups.setdefault(group, []).append(row)

    figure = go.Figure()
    # Sort the groups, so that a value keeps its colour whatever the order of the rows.
    for number, (name, members) in enumerate(sorted(groups.items())):
        figure.add_scatter(**_points(number, name, members, (across, x_title), (up, y_title)))
    drawn = aims is not None and _add_front(figure, kept, across, up, aims)

    subtitle = plural(len(kept), "point")
    if len(kept) < len(rows):
        subtitle += f"; {plural(len(rows) - len(kept), 'row')} without one of the two"
    if aims is not None and drawn:
        subtitle += f"; the line is the Pareto front ({aims[0]} {across}, {aims[1]} {up})"
    by = "" if colour is None else f" by {colour}"
    title = f"{y_title} against {x_title}{by}<br><sub>{subtitle}</sub>"
    return set_style(figure, title, x_title, y_title, legend_title=colour or "")


def _scale_and_title(rows: list[dict[str, Value]], column: str) -> str:
    """Convert a column of seconds in ``rows``, in place, to a suitable unit; return its title."""
    title = axis_title(column)
    numbers = _numbers(row[column] for row in rows)
    if title.endswith("(s)") and numbers:
        factor, unit = time_unit(max(numbers))
        for number, row in enumerate(rows):
            rows[number] = {**row, column: factor * numbers[number]}
        return title.replace("(s)", f"({unit})")
    currencies = {str(row["currency"]) for row in rows if row.get("currency")}
    if "price" in column and len(currencies) == 1:
        return f"{title} ({currencies.pop()})"
    return title


def axis_title(column: str) -> str:
    """Return a column's name with the unit of its ending: ``step time (s)`` for ``step_time_s``."""
    if column in _WORDS:
        return _WORDS[column]
    # Try the longest ending first, because samples per second end in _s too.
    for ending, unit in (("_samples_per_s", "samples/s"), ("_bytes", "B"), ("_s", "s")):
        if column.endswith(ending):
            name = column.removesuffix(ending).replace("_", " ")
            return f"{name} ({unit})"
    name = column.replace("_", " ")
    return f"{name} (B)" if column.startswith("bytes_") else name


def _points(
    number: int,
    name: str,
    rows: Sequence[dict[str, Value]],
    across: tuple[str, str],
    up: tuple[str, str],
) -> dict[str, object]:
    """Return the points of one group; ``across`` and ``up`` are a column and its title each."""
    (x, x_title), (y, y_title) = across, up
    return {
        "x": [row[x] for row in rows],
        "y": [row[y] for row in rows],
        "text": [f"point {row.get('point', '')}: {row.get('name', '')}" for row in rows],
        "hovertemplate": f"%{{text}}<br>{x_title} %{{x}}<br>{y_title} %{{y}}<extra>{name}</extra>",
        "mode": "markers",
        "name": name or "points",
        "showlegend": bool(name),
        "marker": marker_of(number, color=COLOURS[number % len(COLOURS)], size=8, opacity=0.75),
    }


def _add_front(
    figure: go.Figure, rows: Sequence[dict[str, Value]], across: str, up: str, aims: tuple[Aim, Aim]
) -> bool:
    """Draw the front; return False if a column is not numeric."""
    xs = _numbers(row[across] for row in rows)
    ys = _numbers(row[up] for row in rows)
    if not xs or not ys:
        return False
    # Signs turn both aims into "least".
    across_sign, up_sign = (1.0 if aim == "least" else -1.0 for aim in aims)
    best = pareto_front(
        range(len(xs)), lambda point: across_sign * xs[point], lambda point: up_sign * ys[point]
    )
    figure.add_scatter(
        x=[xs[number] for number in best],
        y=[ys[number] for number in best],
        mode="lines+markers+text",
        name="front",
        line={"color": COLOUR["grey"], "width": 2, "shape": "linear"},
        # The ring leaves the point's own mark visible; the text is the point's number in tables.
        marker={"size": 14, "symbol": "circle-open", "color": COLOURS[1], "line": {"width": 2}},
        text=[str(rows[number].get("point", "")) for number in best],
        textposition="middle left",
        cliponaxis=False,
    )
    return True


def _numbers(values: Iterable[Value]) -> list[float]:
    """Return a column's values as floats; none if one of them is not a number."""
    numbers = []
    for value in values:
        # True and False are integers in Python, but must not be drawn as numbers.
        if not isinstance(value, (int, float)) or isinstance(value, bool):
            return []
        numbers.append(float(value))
    return numbers
