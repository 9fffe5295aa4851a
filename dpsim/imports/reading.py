"""Read files of other tools within limits, and report the place of errors."""

from __future__ import annotations

import re
from pathlib import Path

from dpsim.base.errors import DpsimError
from dpsim.base.files import read_limited, shown_path

MOST_FILES = 4096  # of a folder
MOST_BYTES = 16 * 2**20  # of one file: a wrong file must not fill the memory

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class ImportFileError(DpsimError):
    """An error in a file, and its line (None if it concerns the whole file)."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.message = message
        self.line = line
        super().__init__(message if line is None else f"line {line}: {message}")

    def of(self, file: Path) -> DpsimError:
        """Return the same error with the file's name: ``topo.txt:7: must be ...``."""
        return DpsimError(
            f"{file}:{self.line}: {self.message}" if self.line else f"{file}: {self.message}"
        )


def read_input(path: Path) -> bytes:
    """Return the bytes of the file at ``path``.

    Raises DpsimError if it cannot be read, is empty or has more than 16 MiB.
    """
    content = read_limited(path, MOST_BYTES)
    if not content.strip():
        raise DpsimError(f"{path}: must not be empty")
    return content


def text_lines(content: bytes) -> list[str]:
    """Return the lines of a text, without terminal escape codes.

    Raises ImportFileError for binary data.
    """
    if b"\0" in content:
        raise ImportFileError("must be text, but holds binary data")
    return _ANSI.sub("", content.decode("utf-8", errors="replace")).splitlines()


def files_in(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """Return the files of a folder with one of these endings, by name.

    Raises DpsimError if it cannot be read, has none, or more than 4,096.
    """
    try:
        paths = sorted(path for path in folder.iterdir() if path.name.endswith(endings))
    except OSError as error:
        raise DpsimError(f"{shown_path(folder)}: cannot be read: {error.strerror}") from None
    if not 1 <= len(paths) <= MOST_FILES:
        raise DpsimError(
            f"{shown_path(folder)}: must hold 1 to {MOST_FILES:,} files ({', '.join(endings)}), "
            f"but has {len(paths):,}"
        )
    return paths
