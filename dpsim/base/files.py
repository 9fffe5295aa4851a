"""Read files that users name, up to a limit of bytes, and record which were read."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection
from contextvars import ContextVar

from dpsim.base.errors import DpsimError, suggestion

_LONGEST_SHOWN = 200
_LONGEST_COLUMN = 40  # characters of a column's name in an error
_GZIP = b"\x1f\x8b"  # the first bytes of gzip data

# Device and number of every file that was read, recorded only if this is set to a set. `is_input`
# looks files up here, so that a command does not overwrite its inputs.
files_read: ContextVar[set[tuple[int, int]] | None] = ContextVar("files read", default=None)

# The environment variable that refuses code in every command, like --no-code in one.
NO_CODE = "DPSIM_NO_CODE"
CODE_REFUSED = "must not be code that is run (--no-code)"
# Whether files may name code to run.
_runs_code: ContextVar[bool] = ContextVar("runs_code", default=True)


def refuse_code() -> None:
    """From now on, refuse files that name code to run."""
    _runs_code.set(False)


def runs_code() -> bool:
    """Return whether files may name code to run; the environment can forbid it."""
    return _runs_code.get() and os.environ.get(NO_CODE, "0") in ("", "0")


def is_input(status: os.stat_result) -> bool:
    """Return whether the file with this status was read since ``files_read`` was set."""
    return (status.st_dev, status.st_ino) in (files_read.get() or ())


def note_input(status: os.stat_result) -> None:
    """Record the file with this status as read, so that `is_input` knows it."""
    noted = files_read.get()
    if noted is not None and stat.S_ISREG(status.st_mode):
        noted.add((status.st_dev, status.st_ino))


def read_limited(path: str | os.PathLike[str], most: int) -> bytes:
    """Return the bytes of the file, pipe or device at ``path``.

    Raises DpsimError, beginning with the path, if it cannot be read, is a folder, or has more
    than ``most`` bytes.
    """
    shown = shown_path(path)
    try:
        with open(path, "rb", buffering=0) as file:
            # The status of the open file, because the path may by now lead to another file.
            status = os.fstat(file.fileno())
            if stat.S_ISREG(status.st_mode) and status.st_size > most:
                raise DpsimError(
                    f"{shown}: must be at most {most:,} bytes, but got {status.st_size:,}"
                )
            note_input(status)
            content = _all(file.fileno(), most)
    except OSError as error:
        raise DpsimError(f"{shown}: cannot be read: {error.strerror}") from None
    # A DpsimError is a ValueError too, which the clause below would mistake for a wrong name.
    except DpsimError:
        raise
    except ValueError:  # a null byte, or half of a surrogate pair
        raise DpsimError(f"{shown}: must be a file's name") from None
    if len(content) > most:
        raise DpsimError(f"{shown}: must be at most {most:,} bytes, but got more")
    return content


def unpack_gzip(path: str | os.PathLike[str], content: bytes, most: int) -> bytes:
    """Return the ``content`` of the file at ``path``, unpacked if it is gzip data.

    Raises DpsimError, beginning with the path, if it cannot be unpacked, or then has more than
    ``most`` bytes.
    """
    import gzip
    import io
    import zlib

    shown = shown_path(path)
    if not content.startswith(_GZIP):
        if len(content) > most:
            raise DpsimError(f"{shown}: must be at most {most:,} bytes, but got {len(content):,}")
        return content
    try:
        # A few bytes may unpack to very many, so unpack at most one byte more than allowed.
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            text = file.read(most + 1)
    except (OSError, EOFError, zlib.error) as error:
        raise DpsimError(f"{shown}: cannot be read: {error}") from None
    if len(text) > most:
        raise DpsimError(
            f"{shown}: must be at most {most:,} bytes when it is unpacked, but has more"
        )
    return text


def shown_path(path: str | os.PathLike[str]) -> str:
    """Return a path for a message: quoted if it is not printable, and not too long."""
    text = os.fspath(path)
    text = text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
    return text if text.isprintable() else repr(text)


def read_text_limited(path: str | os.PathLike[str], most: int) -> str:
    """Return the file as text in UTF-8, with or without a byte order mark.

    Raises DpsimError as `read_limited` does, and if it is not UTF-8.
    """
    try:
        return read_limited(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DpsimError(
            f"{shown_path(path)}: must be text in UTF-8, but got the byte "
            f"0x{error.object[error.start]:02x}"
        ) from None


def digest(path: str | os.PathLike[str]) -> str:
    """Return the SHA-256 of the current content of the file at ``path``, in 64 hex digits.

    Raises DpsimError if it cannot be read.
    """
    try:
        with open(path, "rb") as file:
            note_input(os.fstat(file.fileno()))
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DpsimError(f"{shown_path(path)}: cannot be read: {error.strerror}") from None


def _all(number: int, most: int) -> bytes:
    """Read up to one byte over the limit, because devices have no end."""
    parts, left = [], most + 1
    while left > 0:
        part = os.read(number, min(left, 2**20))
        if not part:
            break
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def csv_rows(path: str | os.PathLike[str], most: int) -> tuple[list[str], list[dict[str, str]]]:
    """Return the column names and the rows of the CSV file at ``path``.

    Missing values are empty. Raises DpsimError if there is no such file, or it has more than
    ``most`` bytes.
    """
    import csv
    import io

    rows = csv.DictReader(io.StringIO(read_text_limited(path, most)), restval="")
    try:
        return list(rows.fieldnames or ()), list(rows)
    except csv.Error as error:
        raise DpsimError(f"{path}: must be a CSV file, but: {error}") from None


def strict_csv_rows(
    path: str | os.PathLike[str], most: int, required: Collection[str]
) -> list[tuple[int, dict[str, str]]]:
    """Return the rows of the CSV file at ``path``, each with the line on which it ends.

    Raises DpsimError if there is no such file, it has more than ``most`` bytes, lacks one of
    the ``required`` columns, has no rows, or has a row with more or fewer values than columns.
    """
    import csv
    import io

    # Missing values are None; extra values have the name "".
    text = io.StringIO(read_text_limited(path, most), newline="")
    reader = csv.DictReader(text, restkey="", strict=True)
    rows = []
    try:
        _check_columns(path, reader.fieldnames, required)
        for row in reader:
            if None in row.values() or "" in row:
                rule = "must have as many values as there are columns"
                raise DpsimError(f"{path}:{reader.line_num}: {rule}")
            rows.append((reader.line_num, row))
    except csv.Error as error:
        raise DpsimError(f"{path}: must be a CSV file in UTF-8, but {error}") from None
    if not rows:
        raise DpsimError(f"{path}:2: must have at least 1 row below its column names, but got none")
    return rows


def _check_columns(
    path: str | os.PathLike[str], names: Collection[str] | None, required: Collection[str]
) -> None:
    if not names:
        raise DpsimError(f"{path}:1: must have column names in its first line, but it is empty")
    for column in required:
        if column not in names:
            near = suggestion(column, [name[:_LONGEST_COLUMN] for name in names])
            # Name the column that the table lacks.
            near = near.replace("did you mean", "is that").replace("known:", "it has")
            raise DpsimError(
                f"{path}:1: must have the column {column!r}, but got none of that name{near}"
            )
