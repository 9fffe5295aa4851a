"""Read the SQLite file that ``nsys export --type sqlite`` writes of a Nsight Systems profile.

It reads the tables CUPTI_ACTIVITY_KIND_KERNEL, _RUNTIME and _MEMCPY, NVTX_EVENTS and StringIds;
times are nanoseconds. A table only exists if something was recorded for it. Source of the schema:
"SQLite Schema Reference" of the user guide of Nsight Systems.
"""

from __future__ import annotations

import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import monotonic
from typing import Any
from urllib.parse import quote

from dpsim.base.budget import check_memory
from dpsim.base.errors import DpsimError
from dpsim.base.files import note_input, shown_path

MOST_BYTES = 8 * 2**30
MOST_ROWS = 1_000_000  # of a table and a process, which are held in memory
_MOST_STRINGS = 4_000_000
_MOST_SECONDS = 300.0  # limit on reading: a hostile file may contain endless queries
_MEMORY_PER_FILE_BYTE = 10.0  # bytes in memory per byte of the file, measured on small rows
_MOST_HELD = 2e9  # bytes of all rows that may be held
_NANO = 1e-9
KERNELS = "CUPTI_ACTIVITY_KIND_KERNEL"
LAUNCHES = "CUPTI_ACTIVITY_KIND_RUNTIME"
COPIES = "CUPTI_ACTIVITY_KIND_MEMCPY"
RANGES = "NVTX_EVENTS"
_TABLES = {
    KERNELS: ("start", "end", "correlationId", "shortName", "globalPid"),
    LAUNCHES: ("start", "end", "correlationId", "globalTid"),
    COPIES: ("start", "end", "bytes", "copyKind", "globalPid"),
    RANGES: ("start", "end", "text", "textId", "globalTid"),
    "TARGET_INFO_GPU": ("name",),
}
_MAY_LACK = ("globalPid", "textId", "copyKind")  # missing in older versions
_PROCESS = 2**24  # a globalTid is that of its process, and the thread's in the lowest 24 bits


@dataclass(frozen=True, slots=True)
class NsysTables:
    """The tables of an open export, read row by row."""

    path: Path
    file: sqlite3.Connection
    columns_of: dict[str, set[str]]
    names: dict[Any, str]

    def rows(self, table: str) -> Iterator[dict[str, Any]]:
        """Yield the rows of a table as mappings from column to value, with names resolved.

        Times are in seconds as ``start`` and ``end``; ``process`` is the row's process. There are
        no rows if the table does not exist. Raises DpsimError for a broken one.
        """
        if table not in self.columns_of:
            return
        columns = [column for column in _TABLES[table] if column in self.columns_of[table]]
        missing = [column for column in _TABLES[table] if column not in (*columns, *_MAY_LACK)]
        if missing:
            raise DpsimError(f"{shown_path(self.path)}: {table}: must have the column {missing[0]}")
        # The names are from the list above, not from the file.
        quoted = ", ".join(f'"{column}"' for column in columns)
        query = f"SELECT {quoted} FROM {table}"
        for number, values in enumerate(self.file.execute(query), 1):
            # Columns missing in older versions are None, so that all rows have the same keys.
            row = dict.fromkeys(_TABLES[table]) | dict(zip(columns, values, strict=True))
            if "start" in row and not _convert_times(self.path, table, number, row):
                continue
            _resolve_names(row, self.names)
            yield row

    @property
    def device(self) -> str:
        """The GPU's name; empty if the export has none."""
        gpu = next(self.rows("TARGET_INFO_GPU"), None)
        return str(gpu["name"] or "")[:100] if gpu else ""


@contextmanager
def open_nsys(path: Path) -> Iterator[NsysTables]:
    """Open the tables of an export, as a context manager.

    Raises DpsimError, beginning with the path and the table, for an invalid file.
    """
    _check_file(path)
    try:
        with closing(_open(path)) as file:
            columns_of = _columns(file)
            if KERNELS not in columns_of:
                raise DpsimError(
                    f"{shown_path(path)}: must have the table {KERNELS}: profile "
                    "with --trace=cuda,nvtx, and export with --type sqlite"
                )
            yield NsysTables(path, file, columns_of, dict(_strings(file, columns_of)))
    except (sqlite3.Error, OverflowError, UnicodeError) as error:
        reason = " ".join(str(error).split())[:100]
        raise DpsimError(
            f"{shown_path(path)}: must be an SQLite file, which nsys export --type sqlite writes, "
            f"but: {reason}"
        ) from None


def _check_file(path: Path) -> None:
    """Raise DpsimError if the path is not a file or too large; keep it from being overwritten."""
    try:
        status = path.stat()
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise DpsimError(f"{shown_path(path)}: cannot be read: {reason}") from None
    if not stat.S_ISREG(status.st_mode):
        raise DpsimError(f"{shown_path(path)}: must be a file")
    if status.st_size == 0:
        raise DpsimError(f"{shown_path(path)}: must not be empty")
    if status.st_size > MOST_BYTES:
        raise DpsimError(
            f"{shown_path(path)}: must have at most {MOST_BYTES // 2**30} GiB, but has more: "
            "profile fewer steps"
        )
    nbytes = min(_MEMORY_PER_FILE_BYTE * status.st_size, _MOST_HELD)
    check_memory(nbytes, f"{shown_path(path)}: to read it", "profile fewer steps")
    # As an input, so that no output of this command may overwrite it.
    note_input(status)


def _open(path: Path) -> sqlite3.Connection:
    """Open the file read-only; queries that take too long are interrupted."""
    where = quote(str(path.resolve()))
    # Immutable: SQLite neither locks the file nor writes a journal beside it.
    file = sqlite3.connect(f"file:{where}?mode=ro&immutable=1", uri=True)
    # A schema may call functions from views and generated columns, which an untrusted file must
    # not.
    file.execute("PRAGMA trusted_schema = OFF")
    end = monotonic() + _MOST_SECONDS
    file.set_progress_handler(lambda: monotonic() > end, 1_000_000)
    return file


def _columns(file: sqlite3.Connection) -> dict[str, set[str]]:
    """Return the columns of each table that is read. Views are ignored."""
    found = {}
    for (name,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'"):
        if name in _TABLES or name == "StringIds":
            found[name] = {row[1] for row in file.execute(f"PRAGMA table_info({name})")}
    return found


def _strings(
    file: sqlite3.Connection, columns_of: dict[str, set[str]]
) -> Iterator[tuple[Any, str]]:
    if {"id", "value"} <= columns_of.get("StringIds", set()):
        yield from file.execute(f"SELECT id, value FROM StringIds LIMIT {_MOST_STRINGS}")


def _convert_times(path: Path, table: str, number: int, row: dict[str, Any]) -> bool:
    """Convert a row's times to seconds and its process to a number; False if it has no end."""
    start, end = row["start"], row["end"]
    if end is None:
        return False
    if not all(isinstance(each, int) and abs(each) < 2**62 for each in (start, end)) or end < start:
        raise DpsimError(
            f"{shown_path(path)}: {table}: row {number}: must have whole nanoseconds from start to "
            f"end, but got {repr(start)[:30]}, {repr(end)[:30]}"
        )
    row["start"], row["end"] = start * _NANO, end * _NANO
    owner = row.get("globalPid") if "globalPid" in row else row.get("globalTid")
    row["process"] = owner // _PROCESS if isinstance(owner, int) else None
    return True


def _resolve_names(row: dict[str, Any], names: dict[Any, str]) -> None:
    """Resolve the row's text numbers to names."""
    if "shortName" in row:
        row["name"] = str(names.get(row["shortName"], row["shortName"]))
    if "textId" in row:
        row["name"] = str(row["text"] or names.get(row["textId"], ""))
