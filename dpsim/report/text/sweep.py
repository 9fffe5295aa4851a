"""The results of a sweep, as a table that fits a terminal."""

from __future__ import annotations

from collections.abc import Callable
from itertools import islice

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import DATA, TIME, amount, human
from dpsim.report.text.model_error import WITHIN, within
from dpsim.report.text.tables import cell, headings
from dpsim.studies.sweep import BETWEEN_SENTENCES, COLUMNS, Answer

_FIRST_RESULT = COLUMNS[0].name
# By heading, the columns that make a result, and the function that formats them. Exposed
# communication, which efficiency reflects too, would make the table wider than a terminal.
_RESULT_COLUMNS: dict[str, tuple[tuple[str, ...], Callable[..., str]]] = {
    "step": (("step_time_s",), lambda value: human(value, TIME)),
    WITHIN: (("interval_low_s", "interval_high_s"), within),
    "samples/s": (("throughput_samples_per_s",), amount),
    "efficiency": (("scaling_efficiency",), lambda value: f"{value:.1%}"),
    "memory": (("memory_bytes",), lambda value: human(value, DATA, 3)),
}
_TOTAL_COLUMNS: dict[str, tuple[tuple[str, ...], Callable[..., str]]] = {
    "total time": (("total_time_s",), lambda value: human(value, TIME)),
    "price": (("total_price", "currency"), lambda value, unit: f"{amount(value, 4)} {unit}"),
    "kWh": (("total_energy_kwh",), lambda value: amount(value, 4)),
}


def sweep_table(answer: Answer, most: int | None = None, among: Answer | None = None) -> Table:
    """Return points of ``select * from results``: the columns that differ, and five results.

    Only the first ``most`` of them, in the order of the answer. ``among``: all points, if the
    answer has some of them only.
    """
    places = {name: number for number, name in enumerate(answer.columns)}
    distinct = _distinguishing_columns(among or answer, places)

    varied = headings(distinct)
    text = [
        heading
        for name, heading in zip(distinct, varied, strict=True)
        if any(isinstance(row[places[name]], str) for row in answer.rows)
    ]
    # Older folders lack totals of the whole training.
    total = places.get("total_time_s")
    has_total = total is not None and any(row[total] is not None for row in answer.rows)
    shown = _RESULT_COLUMNS | _TOTAL_COLUMNS if has_total else _RESULT_COLUMNS
    rows = []
    for row in answer.rows[:most]:
        results = [
            ([row[places[name]] for name in names], formatted)
            for names, formatted in shown.values()
        ]
        cells = (
            str(row[0]),
            *(cell(row[places[name]], name) for name in distinct),
            *("" if None in values else formatted(*values) for values, formatted in results),
        )
        rows.append(cells)
    return table("", ("point", *varied, *shown), rows, left=text)


def sweep_notes(answer: Answer, most: int | None = None) -> list[str]:
    """Return the extrapolations of the models' errors in the first ``most`` points, each once."""
    column = answer.columns.index("extrapolated")
    texts = (row[column] or "" for row in islice(answer.rows, most))
    every = dict.fromkeys(each for text in texts for each in text.split(BETWEEN_SENTENCES) if each)
    return [f"extrapolated: {each}" for each in every]


def _distinguishing_columns(answer: Answer, places: dict[str, int]) -> list[str]:
    """Return the columns in which points differ."""
    # The file, the name, the seed and the varied fields are between the point's number and the
    # results.
    varied = []
    for name in answer.columns[1 : places[_FIRST_RESULT]]:
        values = {row[places[name]] for row in answer.rows}
        if len(values) > 1:
            varied.append(name)
    # A file or a name is shown only if no field distinguishes the points.
    fields = [name for name in varied if name not in ("file", "name")]
    distinct = {tuple(row[places[name]] for name in fields) for row in answer.rows}
    return fields if len(distinct) == len(answer.rows) else varied


def answer_table(answer: Answer) -> Table:
    """Return the result of any query as a table, a column each."""
    text = [
        name
        for number, name in enumerate(answer.columns)
        if any(not isinstance(row[number], int | float | None) for row in answer.rows)
    ]
    rows = (map(cell, row, answer.columns) for row in answer.rows)
    return table("", answer.columns, rows, left=text)
