"""Reads files that users name.

Up to a limit of bytes, and without waiting for ever where nothing comes.
"""

from __future__ import annotations

import os
import stat
from time import monotonic, sleep

from dpsim.base.errors import DpsimError

_LONGEST_SHOWN = 200
PIPE_PATIENCE = 10.0  # s that a pipe may have no writer


def read_limited(path: str | os.PathLike[str], most: int) -> bytes:
    """The bytes of the file, pipe or device at ``path``.

    Raises DpsimError, beginning with the path, where it cannot be read, is a folder, has more than
    ``most`` bytes, or is a pipe into which nobody writes.
    """
    shown = shown_path(path)
    try:
        # A pipe that nobody writes to would hold up opening itself.
        number = os.open(
            path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
        )
        with os.fdopen(number, "rb", buffering=0):
            kind = os.fstat(number)
            if stat.S_ISREG(kind.st_mode) and kind.st_size > most:
                raise DpsimError(
                    f"{shown}: must be at most {most:,} bytes, but got {kind.st_size:,}"
                )
            content = (
                _from_pipe(number, most) if stat.S_ISFIFO(kind.st_mode) else _all(number, most)
            )
    except OSError as error:
        raise DpsimError(f"{shown}: cannot be read: {error.strerror}") from None
    except ValueError as error:
        if isinstance(error, DpsimError):
            raise
        raise DpsimError(
            f"{shown}: must be a file's name"
        ) from None  # a null byte, or half of a surrogate pair
    if content is None:
        raise DpsimError(
            f"{shown}: must be a file, or a pipe that something writes to, but nothing did for "
            f"{PIPE_PATIENCE:.0f} s"
        )
    if len(content) > most:
        raise DpsimError(f"{shown}: must be at most {most:,} bytes, but got more")
    return content


def shown_path(path: str | os.PathLike[str]) -> str:
    """A path for a message: in quotes where it has what cannot be printed, and not endless."""
    text = os.fspath(path)
    text = text if len(text) <= _LONGEST_SHOWN else f"{text[: _LONGEST_SHOWN - 3]}..."
    return text if text.isprintable() else repr(text)


def read_text_limited(path: str | os.PathLike[str], most: int) -> str:
    """The same as text in UTF-8, with or without a byte order mark.

    Raises DpsimError where it is none.
    """
    try:
        return read_limited(path, most).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DpsimError(
            f"{shown_path(path)}: must be text in UTF-8, but got the byte "
            f"0x{error.object[error.start]:02x}"
        ) from None


def _all(number: int, most: int) -> bytes:
    parts, left = [], most + 1
    while left > 0 and (part := os.read(number, min(left, 2**20))):
        parts.append(part)
        left -= len(part)
    return b"".join(parts)


def _from_pipe(number: int, most: int) -> bytes | None:
    """What comes out of a pipe until its writers close it; None where none comes in time."""
    end = monotonic() + PIPE_PATIENCE
    while True:
        try:
            first = os.read(number, 2**16)
            if first:
                os.set_blocking(number, True)
                return first + _all(number, most - len(first))
        except BlockingIOError:  # there is a writer, which takes its time
            os.set_blocking(number, True)
            return _all(number, most)
        if monotonic() > end:
            return None
        sleep(0.01)
