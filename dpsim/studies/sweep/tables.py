"""The tables of a sweep: points, shards of rows by key, and both together, which is what users ask."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa

from dpsim.scenario import Scalar
from dpsim.studies.sweep.columns import COLUMNS, ERROR, varied_names
from dpsim.studies.sweep.expand import Plan
from dpsim.studies.sweep.journal import Row

_ARROW = {int: pa.int64(), float: pa.float64(), str: pa.string(), bool: pa.bool_()}
_OF_A_SHARD = {
    "key": str,
    ERROR: str,
    "retry": bool,
    **{column.name: column.type for column in COLUMNS},
    "worker": str,
    "seconds": float,
}


def points_table(plan: Plan) -> pa.Table:
    """One row a point, with a column for each varied field of any file (empty where a file does not
    vary it).
    """
    count = range(len(plan.points))
    columns = {
        "point": _array(list(count), int),
        "file": _array([point.file for point in plan.points], str),
        "name": _array([point.name for point in plan.points], str),
        "seed": _typed([point.seed for point in plan.points]),
    }
    for path, name in varied_names(plan.paths).items():
        columns[name] = _typed([point.varied.get(path) for point in plan.points])
    columns["key"] = _array([point.key for point in plan.points], str)
    columns[ERROR] = _array(
        [point.error and "; ".join(point.error.splitlines()) for point in plan.points], str
    )
    return pa.table(columns)


def shard(rows: Sequence[Row]) -> pa.Table:
    """Rows of one worker, as it wrote them down."""
    return pa.table(
        {name: _array([row.get(name) for row in rows], kind) for name, kind in _OF_A_SHARD.items()}
    )


def results_table(points: pa.Table, rows: Mapping[str, Row]) -> pa.Table:
    """The points that have a row or are no scenario, in their order.

    What was varied, what came out, and the error if none did.
    """
    given = points.to_pylist()
    there = [
        number for number, point in enumerate(given) if point["key"] is None or point["key"] in rows
    ]
    found = [rows.get(given[number]["key"], {}) for number in there]
    table = points.take(pa.array(there, pa.int64()))
    own = table.column(ERROR).to_pylist()
    table = table.drop_columns(["key", ERROR])
    for column in COLUMNS:
        table = table.append_column(
            column.name, _array([row.get(column.name) for row in found], column.type)
        )
    errors = [mine or row.get(ERROR) for mine, row in zip(own, found, strict=True)]
    return table.append_column(ERROR, _array(errors, str))


def _array(values: Sequence[object], kind: type) -> pa.Array:
    return pa.array(values, _ARROW[kind])


def _typed(values: Sequence[Scalar]) -> pa.Array:
    """Numbers as numbers and truth values as such, where all are; else all of them as text."""
    kinds = {type(value) for value in values if value is not None}
    if kinds <= {int, float} and kinds:
        try:
            return _array(values, float if float in kinds else int)
        except (pa.ArrowInvalid, OverflowError):  # an integer that is too large for either
            kinds = {int, str}
    if kinds == {bool}:
        return _array(values, bool)
    return _array(
        [value if value is None or isinstance(value, str) else _shown(value) for value in values],
        str,
    )


def _shown(value: bool | int | float) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)
