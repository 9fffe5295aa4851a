"""A table in memory or in a Parquet file, written and read by DuckDB."""

from __future__ import annotations

import atexit
import errno
import glob
import os
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
        """Return each row as a dictionary by column names."""
        return [dict(zip(self.types, row, strict=True)) for row in self.rows]


def connect() -> DuckDBPyConnection:
    """Return a database in memory, with one thread so that sums and files are reproducible."""
    import duckdb

    config: dict[str, str | int | bool | float | list[str]] = {
        "threads": 1,
        "memory_limit": "2GB",
        "temp_directory": "",  # large queries leave nothing on the disk
        "python_enable_replacements": False,  # table names must not refer to Python variables
    }
    connection = duckdb.connect(":memory:", config=config)
    # The progress bar would be on stdout, among the answers; `config` does not have it.
    connection.execute("set enable_progress_bar = false")
    return connection


@cache
def _process_database(process: int) -> DuckDBPyConnection:
    # DuckDB complains on stderr if a connection is open when Python ends.
    atexit.register(_process_database.cache_clear)
    return connect()


def _cursor() -> DuckDBPyConnection:
    """Return a connection to this process's database, because a new one takes 20 ms.

    Its temporary tables are private and end with it.
    """
    return _process_database(os.getpid()).cursor()  # each forked process opens its own


def create(
    connection: DuckDBPyConnection, name: str, table: Table, temporary: bool = False
) -> None:
    """Create ``table`` in SQL as ``name``."""
    kept = "temporary table" if temporary else "table"
    # Pass one parameter per column, because DuckDB inserts rows a hundred times slower.
    columns = []
    values = []
    for number, (column, kind) in enumerate(table.types.items()):
        columns.append(f"unnest(?::{_TO_SQL[kind]}[]) as {_quote(column)}")
        values.append([row[number] for row in table.rows])
    connection.execute(f"create {kept} {_quote(name)} as select {', '.join(columns)}", values)


def write_parquet(table: Table, path: Path) -> None:
    """Write ``table`` to ``path``: the same bytes for the same table. Raises OSError."""
    import duckdb

    target = _utf8(path).replace("'", "''")
    with _cursor() as connection:
        create(connection, "written", table, temporary=True)
        try:
            connection.execute(f"copy written to '{target}' (format parquet)")
        except duckdb.Error as error:
            raise _io_error(error) from None


def read_parquet(path: Path) -> Table:
    """Read the table in the file at ``path``. Raises OSError if it cannot be read."""
    import duckdb

    with _cursor() as connection:
        try:
            answer = connection.execute("select * from read_parquet(?)", [glob.escape(_utf8(path))])
            rows = answer.fetchall()
        except duckdb.Error as error:
            raise _io_error(error) from None
        kinds = {name: str(kind) for name, kind, *_ in answer.description}
    return Table({name: _FROM_SQL[kind] for name, kind in kinds.items()}, rows)


def _io_error(error: Exception) -> OSError:
    # Open a new database next time, because a file can break one permanently.
    _process_database.cache_clear()
    return OSError(errno.EIO, first_line(error))


def _utf8(path: Path) -> str:
    """Return a path in UTF-8, as DuckDB requires it in any locale."""
    return os.fsencode(path).decode("utf-8", "surrogateescape")


def first_line(error: Exception) -> str:
    """Return DuckDB's message without the excerpt of the query."""
    lines = [line.strip() for line in str(error).split("\nLINE ", maxsplit=1)[0].splitlines()]
    return " ".join(line for line in lines if line)


def _quote(name: str) -> str:
    escaped = name.replace('"', '""')
    return f'"{escaped}"'
