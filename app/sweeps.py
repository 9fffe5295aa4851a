"""A sweep's results, filtered, with any column against any other.

It also shows the Pareto front of the points.
"""

from __future__ import annotations

from typing import Any

import streamlit as st

from app import controls
from app.charts import chart
from app.headline import sentence
from app.plain import plain
from app.words import choice_words, field_words
from dpsim.base.errors import DpsimError
from dpsim.base.terminal import harmless
from dpsim.report.figures.columns_figure import Aim, columns_figure
from dpsim.report.figures.style import rounded

_MOST_CHOICES = 20  # most values of a column that can filter or colour rows
_NONE = "nothing"
_RATE = "throughput_samples_per_s"
_AIMS: dict[str, tuple[Aim, Aim] | None] = {
    "no front": None,
    "least across, least up": ("least", "least"),
    "least across, most up": ("least", "most"),
    "most across, least up": ("most", "least"),
    "most across, most up": ("most", "most"),
}
_MOST_ROWS = 50_000
_OF_EACH = ("point", "name", "seed")  # columns of every sweep


def draw() -> None:
    """Draw the folder to name, and its results."""
    folder = controls.write(
        "folder of a sweep, on this machine",
        "folder",
        "",
        "As given to dpsim sweep FILE -o FOLDER; relative to where dpsim app was started.",
    )
    if not folder:
        st.info(
            "Name a folder of results: `dpsim sweep scenarios/sweep.yaml -o results` makes one. "
            "Its points are then plotted here, any column against any other."
        )
        return
    try:
        rows, points = _rows(folder)
    except DpsimError as error:
        st.error(plain(str(error)))
        return
    if len(rows) < points:
        st.warning(
            f"{len(rows):,} of {points:,} points are computed; dpsim sweep --resume computes the "
            "others."
        )
    if not rows:
        return
    kept = _filtered(rows)
    if not kept:
        st.info("No row passes the filter.")
        return
    sentence(_verdict(kept))
    _draw_chart(kept)


def _rows(folder: str) -> tuple[list[dict[str, Any]], int]:
    """Return the sweep's rows.

    Raises DpsimError if there is no sweep, or too many rows for a page.
    """
    from dpsim.studies.sweep import results

    table, points, _ = results(folder)
    if len(table.rows) > _MOST_ROWS:
        raise DpsimError(
            f"{folder}: must have at most {_MOST_ROWS:,} rows for this page, but has "
            f"{len(table.rows):,}: ask dpsim results"
        )
    return table.to_dicts(), points


def _varied(rows: list[dict[str, Any]]) -> dict[str, list[str]]:
    """Return the columns with a few different values, which can distinguish rows."""
    found = {}
    for column in rows[0]:
        values = sorted({str(row[column]) for row in rows if row[column] is not None})
        if 1 < len(values) <= _MOST_CHOICES:
            found[column] = values
    return found


def _fields(rows: list[dict[str, Any]]) -> list[str]:
    """Return the fields that the sweep varies.

    Varied fields are between the seed and the answers, of which ``workers`` is the first.
    """
    columns = list(rows[0])
    answers = columns.index("workers") if "workers" in columns else len(columns)
    return [name for name in _varied(rows) if name in columns[:answers] and name not in _OF_EACH]


def _filtered(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with the chosen values."""
    with st.expander("filter"):
        varied = _varied(rows)
        columns = controls.pick_several("by", list(varied), "filters", [])
        for column in columns:
            # All values at first: a filter that was just added keeps every row.
            chosen = controls.pick_several(
                plain(column), varied[column], f"only-{column}", varied[column]
            )
            rows = [row for row in rows if str(row[column]) in chosen]
    return rows


def _verdict(rows: list[dict[str, Any]]) -> str:
    """Return the row with the most throughput, and its values of the varied fields."""
    done = [row for row in rows if row.get(_RATE) is not None]
    if not done:
        return "None of these rows has a throughput."
    best = max(done, key=lambda row: float(row[_RATE]))
    least = min(float(row[_RATE]) for row in done)
    fields = [f"{field_words(name)} {best[name]}" for name in _fields(rows)]
    where = f" ({', '.join(fields)})" if fields else ""
    text = f"Point {best['point']}{where} is the fastest of {len(done):,}"
    text += f": {rounded(best[_RATE])} samples/s"
    if len(done) > 1:
        text += f", {best[_RATE] / least:.3g} times the slowest"
    return f"{text}."


def _draw_chart(rows: list[dict[str, Any]]) -> None:
    columns = list(rows[0])
    workers = "workers" if "workers" in columns else columns[0]
    step = "step_time_s" if "step_time_s" in columns else columns[-1]
    first = next(iter(_fields(rows)), _NONE)
    front = "The points that no other point beats in both."
    with st.container(horizontal=True):
        across = controls.pick("across", columns, "across", workers)
        up = controls.pick("up", columns, "up", step)
        colour = controls.pick("colour", [_NONE, *_varied(rows)], "colour", first)
        aim = controls.pick("front", list(_AIMS), "front", next(iter(_AIMS)), help=front)
    figure = columns_figure(rows, across, up, None if colour == _NONE else colour, _AIMS[aim])
    chart(figure, key="columns", height=520)

    failed = sum(row.get("error") is not None for row in rows)
    st.caption(
        f"{len(rows):,} rows" + (f", {failed:,} of which failed (column error)" if failed else "")
    )
    # The table's menu downloads it as CSV.
    named = [
        {harmless(choice_words(name)): harmless(value) for name, value in row.items()}
        for row in rows
    ]
    st.dataframe(named, hide_index=True)
