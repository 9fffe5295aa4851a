"""The folder of a sweep: its request and its rows.

All files except the log are written atomically::

    manifest.json      the request: files, varied fields, number of points
    points.parquet     one row per point: file, varied values, the scenario's key
    rows.log           rows of scenarios by key as they finished: a checksum and JSON per line
    results.parquet    points with their rows, in order: the file to share

Only the sweep's own process writes. It appends the rows of a chunk with one unbuffered write, so a
kill loses at most the rows of the last chunk.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias
from zlib import crc32

from dpsim.base.errors import DpsimError, FailedError
from dpsim.studies.sweep.table import Table, read_parquet, write_parquet

Row: TypeAlias = dict[str, Any]

_TEXT = slice(9, None)  # of a line of the log, after its checksum
_SHOWN_LINES = 10
_FILES = {"manifest.json", "points.parquet", "rows.log", "results.parquet", ".lock"}


class Store:
    """The folder of one sweep."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.log = self.folder / "rows.log"
        self.damage: str | None = None
        """The damaged lines of the log, when it was last opened or read."""

    @property
    def exists(self) -> bool:
        """Whether the folder holds a sweep."""
        return (self.folder / "manifest.json").is_file()

    @contextmanager
    def open(self, resume: bool) -> Iterator[Store]:
        """Create the folder, or reopen one with ``resume``, and lock it against other runs.

        Raises DpsimError for a folder that holds anything else or, without ``resume``, a sweep;
        FailedError if another run holds the lock, or if it cannot be written.
        """
        if self.exists and not resume:
            raise DpsimError(
                f"{self.folder}: must be a new folder, or be given with --resume, but holds a sweep"
            )
        is_foreign = not self.folder.is_dir() or _has_foreign_files(self.folder)
        if self.folder.exists() and not self.exists and is_foreign:
            raise DpsimError(
                f"{self.folder}: must be a new or empty folder, or that of a sweep, but holds "
                "something else"
            )
        with self._writing():
            self.folder.mkdir(parents=True, exist_ok=True)
            lock = self._open_own(".lock")
        # The lock ends with the process; a file that says "in use" would stay after a kill.
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise FailedError(
                    f"{self.folder}: another sweep is at work in this folder"
                ) from None
            with self._writing():
                self._clean()
            yield self

    def add(self, text: bytes) -> None:
        """Append rows `in_log` to the log."""
        with self._writing(), self._open_own(self.log.name) as log:
            log.seek(0, os.SEEK_END)
            # If the disk is full, a part is written without an error.
            if log.write(text) < len(text):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def rows(self) -> dict[str, Row]:
        """Return all rows by key; the last of the same key counts."""
        rows = (json.loads(line[_TEXT]) for line in self._lines())
        return {row["key"]: row for row in rows}

    def write_table(self, name: str, table: Table) -> None:
        """Write a Parquet file."""
        self._write_atomically(name, lambda path: write_parquet(table, path))

    def write_manifest(self, content: dict[str, Any]) -> None:
        """Write the manifest, which makes the folder a sweep's.

        The manifest holds the checksum of the points, which are written before.
        """
        text = json.dumps({**content, "points_sha256": self._checksum()}, indent=2) + "\n"
        self._write_atomically(
            "manifest.json", lambda path: path.write_text(text, encoding="utf-8")
        )

    def manifest(self) -> dict[str, Any]:
        """Return the manifest. Raises DpsimError if there is no sweep."""
        try:
            content = json.loads((self.folder / "manifest.json").read_bytes())
        except (FileNotFoundError, NotADirectoryError):
            raise DpsimError(
                f"{self.folder}: must be the folder of a sweep (dpsim sweep -o), but has no "
                "manifest.json"
            ) from None
        except OSError as error:
            raise DpsimError(
                f"{self.folder / 'manifest.json'}: cannot be read: {error.strerror}"
            ) from None
        except ValueError:
            content = None
        if not isinstance(content, dict) or content.get("schema_version") != 1:
            raise DpsimError(
                f"{self.folder / 'manifest.json'}: must be what dpsim sweep wrote, but is not"
            )
        return content

    def points(self) -> Table:
        """Return the table of points. Raises DpsimError if it is damaged."""
        path = self.folder / "points.parquet"
        try:
            if self.manifest().get("points_sha256") == self._checksum():
                return read_parquet(path)
            reason = "has changed since"
        except OSError as error:
            reason = f"cannot be read: {error.strerror}"
        raise DpsimError(
            f"{path}: must be what dpsim sweep wrote, but {reason} (dpsim sweep --resume writes it "
            "anew)"
        )

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.folder / name).unlink(missing_ok=True)

    def _clean(self) -> None:
        """Remove a killed run's unfinished files, and damaged lines."""
        for left in self.folder.glob(".*.tmp"):
            left.unlink()
        content = b"".join(line + b"\n" for line in self._lines())
        if self.log.exists() and self.log.stat().st_size != len(content):
            self._write_atomically(self.log.name, lambda path: path.write_bytes(content))

    def _lines(self) -> list[bytes]:
        """Return the undamaged lines of the log."""
        # Text after the last line break is an unfinished row, not damage.
        *lines, _ = self.log.read_bytes().split(b"\n") if self.log.exists() else [b""]
        damaged = [str(number) for number, line in enumerate(lines, 1) if not _is_undamaged(line)]
        self.damage = (
            damaged
            and (
                f"{self.log}: damaged rows are left out (line {', '.join(damaged[:_SHOWN_LINES])}"
                f"{' and others' if len(damaged) > _SHOWN_LINES else ''}); dpsim sweep --resume "
                "computes them again"
            )
        ) or None
        return [line for line in lines if _is_undamaged(line)]

    def _checksum(self) -> str:
        return hashlib.sha256((self.folder / "points.parquet").read_bytes()).hexdigest()

    def _open_own(self, name: str) -> IO[bytes]:
        # Not through a link, which may lead to a valuable file, and without truncating.
        how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(self.folder / name, how, 0o666), "r+b", buffering=0)

    def _write_atomically(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file atomically."""
        temporary = self.folder / f".{uuid.uuid4().hex[:8]}.tmp"
        with self._writing():
            write(temporary)
            os.replace(temporary, self.folder / name)

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise FailedError(
                f"{self.folder}: cannot be written: {error.strerror or error}"
            ) from None


def in_log(row: Row) -> bytes:
    """Return the line of the log with ``row``."""
    text = json.dumps(row, allow_nan=False, separators=(",", ":")).encode()
    return b"%08x %s\n" % (crc32(text), text)


def _is_undamaged(line: bytes) -> bool:
    return line[: _TEXT.start] == b"%08x " % crc32(line[_TEXT])


def _has_foreign_files(folder: Path) -> bool:
    """Return whether a folder holds files that are not a sweep's."""
    return not {path.name for path in folder.iterdir() if path.suffix != ".tmp"} <= _FILES
