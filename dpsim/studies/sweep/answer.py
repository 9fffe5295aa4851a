"""SQL queries on a sweep's results, by DuckDB.

A query sees only the table ``results``, no files and no network.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from math import isfinite
from typing import TYPE_CHECKING, Any

from dpsim.base.child import Child
from dpsim.base.errors import DpsimError, FailedError
from dpsim.studies.sweep.store import Store
from dpsim.studies.sweep.table import Table, connect, create, first_line

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

ALL = "select * from results"


@dataclass(frozen=True, slots=True)
class Answer:
    """The rows of a query's result, and the names of their columns.

    ``done`` of ``points`` of the sweep are finished. ``damage`` states which rows were damaged.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    done: int
    points: int
    damage: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object of ``dpsim results --json``.

        Raises DpsimError if two columns have the same name.
        """
        twice = next((name for name, number in Counter(self.columns).items() if number > 1), None)
        if twice is not None:
            raise DpsimError(
                f"--sql: columns must have names of their own, but got two of {twice!r} (name "
                "one: ... AS other)"
            )
        rows = [dict(zip(self.columns, row, strict=True)) for row in self.rows]
        return {
            "schema_version": 1,
            "kind": "results",
            "points": self.points,
            "done": self.done,
            "columns": list(self.columns),
            "rows": rows,
        }


def query(folder: str | os.PathLike[str], sql: str = ALL) -> Answer:
    """Answer a select statement about the sweep in ``folder``, which may be unfinished or running.

    ``results`` has one row for each finished point, in the order of points. Raises DpsimError if
    there is no sweep, and for SQL that is invalid, is not a select, or uses anything but the table.
    """
    table, points, damage = results(folder)
    if sql == ALL:
        return Answer(tuple(table.types), tuple(table.rows), len(table.rows), points, damage)
    # In a separate process, because a query may take unlimited time and memory.
    child = Child()
    try:
        columns, rows = child.run(_query, table, sql)
    except FailedError as error:
        raise FailedError(f"--sql: {error}") from None
    finally:
        child.end()
    return Answer(columns, rows, len(table.rows), points, damage)


def _query(table: Table, sql: str) -> tuple[tuple[str, ...], tuple[tuple[Any, ...], ...]]:
    """Return the columns and rows of the result of ``sql``."""
    import duckdb

    connection = _isolated_database(table)
    try:
        _check(connection, sql)
        answered = connection.execute(sql)
        columns = tuple(column[0] for column in answered.description)
        rows = tuple(tuple(map(_plain, row)) for row in answered.fetchall())
    except duckdb.Error as error:
        raise DpsimError(f"--sql: {first_line(error)}") from None
    finally:
        connection.close()
    return columns, rows


def results(folder: str | os.PathLike[str]) -> tuple[Table, int, str | None]:
    """Return the table of finished points, the number of all points, and the damage found.

    Raises DpsimError if there is no sweep.
    """
    from dpsim.studies.sweep.tables import results_table

    store = Store(folder)
    points = store.points()
    return results_table(points, store.rows()), len(points.rows), store.damage


def _isolated_database(table: Table) -> DuckDBPyConnection:
    """Return a database in memory that holds ``results`` and cannot access anything else."""
    # DuckDB's SQL, even a select, can read files and web addresses, install extensions and write.
    # Locked last, so that the query cannot undo it.
    connection = connect()
    create(connection, "results", table)
    connection.execute("set enable_external_access = false")
    connection.execute("set lock_configuration = true")
    return connection


def _check(connection: DuckDBPyConnection, sql: str) -> None:
    # DuckDB's parser, because comments and quotes may hide a statement from a pattern.
    kinds = [statement.type.name for statement in connection.extract_statements(sql)]
    if kinds not in (["SELECT"], ["EXPLAIN"]):
        got = ", ".join(kinds) or "nothing"
        raise DpsimError(f"--sql: must be one select statement, but got {got}")


def _plain(value: Any) -> Any:
    """Return a JSON value: numbers that are not finite become null, times become text."""
    if isinstance(value, float) and not isfinite(value):
        return None
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (date, datetime, time)):
        return value.isoformat()
    return (
        value
        if value is None or isinstance(value, (bool, int, float, str))
        else _text_or_seconds(value)
    )


def _text_or_seconds(value: Any) -> Any:
    return value.total_seconds() if isinstance(value, timedelta) else str(value)
