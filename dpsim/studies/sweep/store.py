"""A sweep's folder: what was asked, and the rows that are there.

Every file but a worker's journal is written whole or not at all::

    manifest.json              what was asked: files, varied fields, number of points
    points.parquet             a row a point: file, varied values, the scenario's key
    journals/RUN/WORKER.jsonl  rows of workers at work (`dpsim.studies.sweep.journal`)
    shards/RUN-WORKER.parquet  rows of a worker, by key, once its run has ended or is resumed
    results.parquet            points with their rows, in order: the file to hand on
"""

from __future__ import annotations

import fcntl
import json
import os
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from dpsim.base.errors import DpsimError, FailedError
from dpsim.studies.sweep import journal
from dpsim.studies.sweep.journal import Row
from dpsim.studies.sweep.table import Table, read_parquet, write_parquet

_REPAIR = "dpsim sweep --resume --repair sets it aside and computes its points anew"


class Store:
    """The folder of one sweep."""

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.run = uuid.uuid4().hex[:8]

    @property
    def journals(self) -> Path:
        """Where this run's workers write."""
        return self.folder / "journals" / self.run

    @property
    def exists(self) -> bool:
        """Whether a sweep is there."""
        return (self.folder / "manifest.json").is_file()

    @contextmanager
    def open(self, resume: bool) -> Iterator[Store]:
        """Make the folder, or take up an old one with ``resume``, and hold it against other runs.

        Raises DpsimError for a folder that holds anything else or, without ``resume``, a sweep;
        FailedError where another run holds it, or where it cannot be written.
        """
        if self.exists and not resume:
            raise DpsimError(
                f"{self.folder}: must be a new folder, or be given with --resume, but holds a sweep"
            )
        is_foreign = not self.folder.is_dir() or _holds_other_things(self.folder)
        if self.folder.exists() and not self.exists and is_foreign:
            raise DpsimError(
                f"{self.folder}: must be a new or empty folder, or that of a sweep, but holds "
                "something else"
            )
        with self._writing():
            # Before the lock, since the folder is the run's own and in nobody's way.
            self.journals.mkdir(parents=True)
            (self.folder / "shards").mkdir(exist_ok=True)
            lock = self._lock_file()
        # The lock goes with the process, however that ends; a file that says "in use" would stay.
        with lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self.journals.rmdir()
                raise FailedError(
                    f"{self.folder}: another sweep is at work in this folder"
                ) from None
            yield self
            with suppress(OSError):  # workers that were left alone may still write
                self.journals.rmdir()
                self.journals.parent.rmdir()

    def _lock_file(self) -> IO[bytes]:
        # Not through a link, which somebody may have laid to a file of worth, nor emptied.
        how = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
        return os.fdopen(os.open(self.folder / ".lock", how, 0o666), "r+b")

    def repair(self) -> list[Path]:
        """Set aside what cannot be read, so that its rows are computed anew; where it is now."""
        aside = []
        for path in sorted((self.folder / "shards").glob("*.parquet")):
            try:
                self._rows_of(path)
            except DpsimError:
                with self._writing():
                    aside.append(path.rename(path.with_suffix(".unreadable")))
        return aside

    def rows(self) -> dict[str, Row]:
        """All rows that are there, by key; of two with the same key, one that is final."""
        found: dict[str, Row] = {}
        for row in [*self._in_shards(), *self._in_journals()]:
            if row["key"] not in found or found[row["key"]]["retry"]:
                found[row["key"]] = row
        return found

    def in_flight(self) -> set[str]:
        """Keys of what this run's workers have begun and not done."""
        return journal.in_flight(sorted(self.journals.glob("*.jsonl")))

    def note(self, row: Row) -> None:
        """Write down a row that its worker could not."""
        with self._writing():
            own = {key: value for key, value in row.items() if key != "kept"}
            journal.write(self.journals, row["worker"], journal.DONE, own)

    def settle(self) -> None:
        """Turn every journal into its worker's shard.

        What a killed run left half done is cleared away.
        """
        from dpsim.studies.sweep.tables import shard

        for path in sorted((self.folder / "journals").glob("*/*.jsonl")):
            rows = list(journal.rows(path))
            if rows:
                self.write_table(self._shard_of(path), shard(rows))
            # After its rows stand in the shard: a kill in between leaves them in both, and rows are
            # taken by key.
            path.unlink()
        for left in self.folder.glob(".*.tmp"):  # of a run that was killed while it wrote
            left.unlink()
        for run in (self.folder / "journals").iterdir():
            if run.name != self.run:
                # A worker that outlived its killed run may still have written something.
                with suppress(OSError):
                    run.rmdir()

    def _shard_of(self, journal_file: Path) -> str:
        """A name that is still free.

        A worker that outlived its killed run may begin its journal anew.
        """
        name = f"shards/{journal_file.parent.name}-{journal_file.stem}"
        if (self.folder / f"{name}.parquet").exists():
            return f"{name}-{self.run}.parquet"
        return f"{name}.parquet"

    def write_table(self, name: str, table: Table) -> None:
        """Write a Parquet file."""
        self._whole(name, lambda path: write_parquet(table, path))

    def write_manifest(self, content: dict[str, Any]) -> None:
        """Write down what was asked, from which on the folder is a sweep's."""
        text = json.dumps(content, indent=2) + "\n"
        self._whole("manifest.json", lambda path: path.write_text(text, encoding="utf-8"))

    def manifest(self) -> dict[str, Any]:
        """What was asked. Raises DpsimError where no sweep is there."""
        try:
            content = json.loads((self.folder / "manifest.json").read_bytes())
        except OSError:
            raise DpsimError(
                f"{self.folder}: must be the folder of a sweep (dpsim sweep -o), but has no "
                "manifest.json"
            ) from None
        except ValueError:
            content = None
        if not isinstance(content, dict) or content.get("schema_version") != 1:
            raise DpsimError(
                f"{self.folder / 'manifest.json'}: must be what dpsim sweep wrote, but is not"
            )
        return content

    def points(self) -> Table:
        """The table of points. Raises DpsimError where it cannot be read."""
        return self._read(self.folder / "points.parquet")

    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""
        (self.folder / name).unlink(missing_ok=True)

    def _in_shards(self) -> Iterator[Row]:
        for path in sorted((self.folder / "shards").glob("*.parquet")):
            yield from self._rows_of(path)

    def _rows_of(self, shard: Path) -> list[Row]:
        from dpsim.studies.sweep.tables import is_shard

        try:
            table = self._read(shard)
        except DpsimError as error:
            raise DpsimError(f"{error} ({_REPAIR})") from None
        if not is_shard(table):
            raise DpsimError(
                f"{shard}: must be what dpsim sweep wrote, but has other columns ({_REPAIR})"
            )
        return table.to_dicts()

    def _in_journals(self) -> Iterator[Row]:
        for path in sorted((self.folder / "journals").glob("*/*.jsonl")):
            yield from journal.rows(path)

    def _read(self, path: Path) -> Table:
        try:
            return read_parquet(path)
        except OSError as error:
            raise DpsimError(
                f"{path}: must be what dpsim sweep wrote, but cannot be read: {error.strerror}"
            ) from None

    def _whole(self, name: str, write: Callable[[Path], object]) -> None:
        """Write a file so that others see the old one or the whole new one."""
        temporary = self.folder / f".{self.run}.tmp"
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


def _holds_other_things(folder: Path) -> bool:
    """Whether a folder holds what no sweep left there before it had a manifest."""
    names = {path.name for path in folder.iterdir() if path.suffix != ".tmp"}
    return not names <= {"journals", "shards", "points.parquet", ".lock"}
