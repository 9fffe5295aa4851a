"""The tables of a sweep: its points, and its points with their results."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dpsim.scenario import Scalar
from dpsim.studies.sweep.columns import COLUMNS, ERROR, varied_names
from dpsim.studies.sweep.expand import Plan
from dpsim.studies.sweep.store import Row
from dpsim.studies.sweep.table import Table

_RESULTS = {column.name: column.type for column in COLUMNS}
_MOST_INTEGER = 2**63 - 1  # the largest in a column of integers
_MOST_EXACT = 2**53  # integers up to this are exact as floats


def points_table(plan: Plan) -> Table:
    """Return one row per point, with a column for each varied field of any file.

    A cell is empty if its file does not vary the field.
    """
    points = plan.points
    types: dict[str, type] = {"point": int, "file": str, "name": str}
    columns: list[list[Any]] = [
        list(range(len(points))),
        [point.file for point in points],
        [point.name for point in points],
    ]
    varied: dict[str, list[Scalar]] = {"seed": [point.seed for point in points]}
    for path, name in varied_names(plan.paths).items():
        varied[name] = [point.varied.get(path) for point in points]
    # Values of several types become text, because a column has one type.
    for name, values in varied.items():
        types[name] = _common_type(values)
        shown = [_as_text(value) for value in values] if types[name] is str else values
        columns.append(list(shown))
    types |= {"key": str, ERROR: str}
    columns.append([point.key for point in points])
    columns.append([point.error and "; ".join(point.error.splitlines()) for point in points])
    return Table(types, list(zip(*columns, strict=True)))


def results_table(points: Table, rows: Mapping[str, Row]) -> Table:
    """Return the points that have a row or are invalid, in their order.

    A row has the varied values, and the results or the error.
    """
    types = {name: kind for name, kind in points.types.items() if name not in ("key", ERROR)}
    types |= {**_RESULTS, ERROR: str}
    cells = []
    for point in points.to_dicts():
        key = point["key"]
        if key is not None and key not in rows:
            continue
        row = rows.get(key, {})
        result = {name: row.get(name) for name in _RESULTS}
        whole = {**point, **result, ERROR: point[ERROR] or row.get(ERROR)}
        cells.append(tuple(whole[name] for name in types))
    return Table(types, cells)


def _common_type(values: Sequence[Scalar]) -> type:
    """Return the type of a column: numbers or booleans if all values are, otherwise text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds == {bool}:
        return bool
    if not kinds or not kinds <= {int, float}:
        return str
    # A number that a column would round is kept as text.
    most = _MOST_EXACT if float in kinds else _MOST_INTEGER
    if any(isinstance(value, int) and abs(value) > most for value in values):
        return str
    return float if float in kinds else int


def _as_text(value: Scalar) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return str(value).lower() if isinstance(value, bool) else repr(value)
