"""Reads files that other tools wrote, with limits, and says where in them something is wrong."""

from __future__ import annotations

import re
from pathlib import Path

from dpsim.base.errors import DpsimError
from dpsim.base.files import read_limited, shown_path

MOST_FILES = 4096  # of a folder
MOST_BYTES = 16 * 2**20  # of one file: a wrong file must not fill the memory

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")


class ImportFileError(DpsimError):
    """What is wrong with a file, and in which line (None where it is about the whole file)."""

    def __init__(self, message: str, line: int | None = None) -> None:
        self.message = message
        self.line = line
        super().__init__(message if line is None else f"line {line}: {message}")

    def of(self, file: Path) -> DpsimError:
        """The same problem with the file's name: ``topo.txt:7: must be ...``."""
        return DpsimError(
            f"{file}:{self.line}: {self.message}" if self.line else f"{file}: {self.message}"
        )


def read_input(path: Path) -> bytes:
    """The bytes of the file at ``path``.

    Raises DpsimError where it cannot be read, is empty or has more than 16 MiB.
    """
    content = read_limited(path, MOST_BYTES)
    if not content.strip():
        raise DpsimError(f"{path}: must not be empty")
    return content


def text_lines(content: bytes) -> list[str]:
    """The lines of a text, without the codes with which terminals underline and colour.

    Raises ImportFileError for binary data.
    """
    if b"\0" in content:
        raise ImportFileError("must be text, but holds binary data")
    return _ANSI.sub("", content.decode("utf-8", errors="replace")).splitlines()


def files_in(folder: Path, endings: tuple[str, ...]) -> list[Path]:
    """The files of a folder with one of these endings, by name.

    Raises DpsimError where it cannot be read, has none, or more than 4,096.
    """
    try:
        found = sorted(path for path in folder.iterdir() if path.name.endswith(endings))
    except OSError as error:
        raise DpsimError(f"{shown_path(folder)}: cannot be read: {error.strerror}") from None
    if not 1 <= len(found) <= MOST_FILES:
        raise DpsimError(
            f"{shown_path(folder)}: must hold 1 to {MOST_FILES:,} files ({', '.join(endings)}), "
            f"but has {len(found):,}"
        )
    return found
