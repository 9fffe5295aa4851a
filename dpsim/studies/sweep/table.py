"""A table in memory, and as a Parquet file, which DuckDB writes and reads."""

from __future__ import annotations

import atexit
import errno
import glob
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_TO_SQL = {int: "bigint", float: "double", str: "varchar", bool: "boolean"}
_FROM_SQL = {"BIGINT": int, "DOUBLE": float, "VARCHAR": str, "BOOLEAN": bool}


@dataclass(frozen=True, slots=True)
class Table:
    """Rows with named columns, each of one type; any cell may be None."""

    types: dict[str, type]
    rows: list[tuple[Any, ...]]

    def to_dicts(self) -> list[dict[str, Any]]:
        """Each row by the names of its columns."""
        return [dict(zip(self.types, row, strict=True)) for row in self.rows]


def of_dicts(types: Mapping[str, type], rows: Iterable[Mapping[str, Any]]) -> Table:
    """The table of rows by the names of their columns; what a row lacks is None."""
    return Table(dict(types), [tuple(row.get(name) for name in types) for row in rows])


def connect() -> DuckDBPyConnection:
    """A database in memory; one thread, so that sums and files always come out alike."""
    import duckdb

    config: dict[str, str | int | bool | float | list[str]] = {
        "threads": 1,
        "memory_limit": "2GB",
        "temp_directory": "",  # nothing of a large query is left on the disk
        "python_enable_replacements": False,  # a table's name is no variable of ours
    }
    connection = duckdb.connect(":memory:", config=config)
    # It goes to stdout, among the answers; a connection does not take it as configuration.
    connection.execute("set enable_progress_bar = false")
    return connection


@cache
def _kept(process: int) -> DuckDBPyConnection:
    # DuckDB's module complains on stderr of a connection that is there when Python ends.
    atexit.register(_kept.cache_clear)
    return connect()


def _joined() -> DuckDBPyConnection:
    """A connection to a database that this process keeps, for a new one takes 20 ms.

    What it creates as temporary no other sees, and goes with it.
    """
    return _kept(os.getpid()).cursor()  # a fork makes its own


def create(
    connection: DuckDBPyConnection, name: str, table: Table, temporary: bool = False
) -> None:
    """Make ``table`` known to SQL as ``name``."""
    kept = "temporary table" if temporary else "table"
    # A column a parameter: DuckDB takes a hundred times longer for a row at a time.
    columns = []
    values = []
    for number, (column, kind) in enumerate(table.types.items()):
        columns.append(f"unnest(?::{_TO_SQL[kind]}[]) as {_quoted(column)}")
        values.append([row[number] for row in table.rows])
    connection.execute(f"create {kept} {_quoted(name)} as select {', '.join(columns)}", values)


def write_parquet(table: Table, path: Path) -> None:
    """Write ``table`` to ``path``: the same bytes for the same table. Raises OSError."""
    import duckdb

    target = _utf8(path).replace("'", "''")
    with _joined() as connection:
        create(connection, "written", table, temporary=True)
        try:
            connection.execute(f"copy written to '{target}' (format parquet)")
        except duckdb.Error as error:
            raise _io_error(error) from None


def read_parquet(path: Path) -> Table:
    """The table in the file at ``path``. Raises OSError where it cannot be read."""
    import duckdb

    with _joined() as connection:
        try:
            found = connection.execute("select * from read_parquet(?)", [glob.escape(_utf8(path))])
            rows = found.fetchall()
        except duckdb.Error as error:
            raise _io_error(error) from None
        kinds = {name: str(kind) for name, kind, *_ in found.description}
    return Table({name: _FROM_SQL[kind] for name, kind in kinds.items()}, rows)


def _io_error(error: Exception) -> OSError:
    # A file can break a database for good, which nobody shall join again.
    _kept.cache_clear()
    return OSError(errno.EIO, first_line(error))


def _utf8(path: Path) -> str:
    """A path as DuckDB takes it, whatever the locale's letters are."""
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def first_line(error: Exception) -> str:
    """DuckDB's message without the drawing of where in the query it is."""
    lines = [line.strip() for line in str(error).split("\nLINE ", maxsplit=1)[0].splitlines()]
    return " ".join(line for line in lines if line)


def _quoted(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
