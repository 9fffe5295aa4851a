"""Output of commands.

Tables and JSON on stdout, files written completely or not at all, messages on stderr.
"""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import stat
import sys
import tempfile
import textwrap
from collections.abc import Container, Iterable, Iterator
from contextvars import ContextVar
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpsim.base.errors import DpsimError
from dpsim.base.files import is_input, shown_path

if TYPE_CHECKING:
    from rich.console import JustifyMethod
    from rich.table import Table

_WIDTH = 160  # the largest width of output
_LONGEST_LINE = 800  # characters
_LONGEST_WORD = 20  # sufficient width of a column of prose, even if it has longer words


def clear_line(text: str) -> str:
    """Return a line without control characters, and not too long.

    Messages repeat text from users, files and libraries.
    """
    shown = spelled_out(text)
    if len(shown) <= _LONGEST_LINE:
        return shown
    # Keep both ends, because messages begin with the place and end with the value.
    half = _LONGEST_LINE // 2 - 3
    return f"{shown[:half]} ... {shown[-half:]}"


def spelled_out(text: str) -> str:
    """Return a text with control characters other than newlines escaped."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign == "\n" else repr(sign)[1:-1] for sign in text
    )


def table(
    title: str,
    headings: Iterable[str],
    rows: Iterable[Iterable[str]],
    left: Container[str] = (),
) -> Table:
    """Return a table; the columns whose headings are in ``left`` hold text, the others numbers."""
    from rich.table import Table

    result = Table(title=spelled_out(title), title_justify="left", show_edge=False)
    for heading in headings:
        justify: JustifyMethod = "left" if heading in left else "right"
        result.add_column(spelled_out(heading), justify=justify, overflow="fold")
    for cells in rows:
        result.add_row(*map(spelled_out, cells))
    return result


def show(*parts: Table | str, as_message: bool = False) -> None:
    """Print tables and lines on stdout, or as a message on stderr, fitted to the terminal.

    Up to 160 columns wide if stdout is no terminal. No number is broken: a table that needs more
    room takes it.
    """
    from rich.console import Console

    if as_message and not shows_messages(Verbosity.NORMAL):
        return
    width = min(_WIDTH, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _WIDTH
    # Turn markup off, because Rich would read square brackets in names as styles.
    console = Console(highlight=False, markup=False, width=width, stderr=as_message)
    for part in parts:
        if isinstance(part, str):
            for line in spelled_out(part).splitlines() or [""]:
                console.print(_wrap(line, width), soft_wrap=True)
            continue
        if part.title:
            console.print(part.title, style="table.title", soft_wrap=True)
            part.title = None  # a title would be wrapped to the width of its table
        _keep_whole(part)
        console.print(part, width=max(width, console.measure(part).minimum), crop=False)


def _keep_whole(table: Table) -> None:
    """Make columns at least as wide as their numbers, which are right-aligned, or words."""
    for column in table.columns:
        cells = [str(cell) for cell in column.cells]
        if column.justify == "right":
            column.min_width = max(map(len, (*cells, *str(column.header).split())), default=0)
        else:
            words = [word for cell in (str(column.header), *cells) for word in cell.split()]
            column.min_width = min(max(map(len, words), default=0), _LONGEST_WORD)


def _wrap(line: str, width: int) -> str:
    """Wrap a line that is too long; continuation lines are indented by two more."""
    indent = len(line) - len(line.lstrip()) + 2
    return textwrap.fill(
        line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def show_json(content: dict[str, Any], rows: list[dict[str, Any]] | None = None) -> None:
    """Print an object as JSON, or as `set_answer_output` requests; ``rows`` are its CSV."""
    path, is_csv = _answer.get()
    text = (
        _as_csv({"rows": rows} if rows else content)
        if is_csv
        else json.dumps(content, indent=2, allow_nan=False) + "\n"
    )
    if path is None:
        sys.stdout.write(text)
        return
    save(path, text)


def show_answer(kind: str, /, **content: Any) -> None:
    """Print the answer of a command as JSON, with its kind first."""
    show_json({"schema_version": 1, "kind": kind, **content})


def set_answer_output(path: Path | None = None, *, is_csv: bool = False) -> None:
    """From now on, write the answer to ``path``; as CSV, its ``rows`` or itself as the only row."""
    before = _answer.get()
    _answer.set((path or before[0], is_csv or before[1]))


def _as_csv(content: dict[str, Any]) -> str:
    """Return CSV with a column for each value of any row; nested values are ``outer.inner``."""
    rows = flat_rows(content)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return csv_text([names, *([row.get(name) for name in names] for row in rows)])


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Return rows as CSV without texts that a spreadsheet or a terminal would execute."""
    text = io.StringIO()
    # csv's default line ends are those of Windows.
    written = csv.writer(text, lineterminator="\n")
    written.writerows(map(harmless, row) for row in rows)
    return text.getvalue()


def harmless(cell: Any) -> Any:
    """Return a cell; a text that a spreadsheet would take for a formula gets an apostrophe."""
    if not isinstance(cell, str):
        return cell
    shown = spelled_out(cell)
    return f"'{shown}" if shown.lstrip().startswith(("=", "+", "-", "@")) else shown


def flat_rows(content: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the ``rows`` of an answer, or itself as the only one; nested values flattened.

    Nested values are named ``outer.inner``.
    """
    rows = [dict(_flat("", row)) for row in content.get("rows", [content])]
    for row in rows:
        for of_json in ("schema_version", "kind"):
            row.pop(of_json, None)
    return rows


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(f"{name}.{key}" if name else key, inner)
    else:
        yield name, json.dumps(value) if isinstance(value, (list, bool)) else value


def flush() -> None:
    """Flush stdout, so that a failure to write gives an error message and exit code.

    Otherwise Python would retry at exit, with its own message and code 120.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


class Verbosity(IntEnum):
    """The amount of messages on stderr apart from errors."""

    QUIET = 0  # nothing
    NORMAL = 1
    VERBOSE = 2  # also times, and the traceback of an unexpected error


_verbosity: ContextVar[Verbosity] = ContextVar("verbosity", default=Verbosity.NORMAL)
# The file for the answer, stdout if None, and whether it is CSV.
_answer: ContextVar[tuple[Path | None, bool]] = ContextVar("answer", default=(None, False))


def set_verbosity(verbosity: Verbosity) -> None:
    """Set the amount of messages from now on."""
    _verbosity.set(verbosity)


def shows_messages(verbosity: Verbosity) -> bool:
    """Return whether messages of level ``verbosity`` are shown."""
    return _verbosity.get() >= verbosity


def narrate(text: str, verbosity: Verbosity = Verbosity.NORMAL) -> None:
    """Write a message on stderr about what is being done or assumed."""
    if shows_messages(verbosity):
        sys.stderr.write(f"{spelled_out(text)}\n")


def save(path: Path, text: str | bytes, more: str = "") -> None:
    """Write a file as `write_whole` does, and say so on stderr, with ``more`` after its name."""
    write_whole(path, text)
    narrate(f"wrote {path}{more}")


def write_whole(path: Path, text: str | bytes) -> None:
    """Write ``text`` to ``path``, in UTF-8, so that others see the old file or the whole new one.

    A link is followed. A device or a pipe is opened and written, as is stdout by its name. Raises
    DpsimError if it cannot be written, or if it is a file that this command has read.
    """
    # Invalid text, such as half of a surrogate pair in a name, is escaped.
    content = text.encode(errors="backslashreplace") if isinstance(text, str) else text
    shown = shown_path(path)
    try:
        target = Path(os.path.realpath(path))
        status = _status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise DpsimError(f"{shown}: must be a file, but is a folder")
        if status is not None and is_input(status):
            raise DpsimError(f"{shown}: must not be a file that is read, but is one")
        # Compare with the open file instead of the name, because /dev/stdout and /dev/fd/1 are
        # two of its names.
        if status is not None and os.path.samestat(status, os.fstat(1)):
            _append_to_stdout(content)
        elif status is not None and not stat.S_ISREG(status.st_mode):
            path.write_bytes(content)
        elif not target.parent.is_dir():
            raise DpsimError(f"{shown}: the folder {target.parent} must exist, but does not")
        else:
            _replace(target, content)
    except OSError as error:
        raise DpsimError(f"{shown}: cannot be written: {error.strerror}") from None
    # A DpsimError is a ValueError too, which the clause below would mistake for a wrong name.
    except DpsimError:
        raise
    except ValueError:  # a null byte, or half of a surrogate pair
        raise DpsimError(f"{shown}: must be a file's name") from None


def _status(path: Path) -> os.stat_result | None:
    """Return the status of the file at ``path``, or None if there is none yet."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _append_to_stdout(content: bytes) -> None:
    # Opening it by name would truncate it, and later output would overwrite it.
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "wb") as out:
        out.write(content)


def _replace(target: Path, content: bytes) -> None:
    """Write a file beside ``target`` and move it into place; on failure nothing is left of it."""
    # Beside the target, and so in the same file system, where a replacement is atomic.
    number, temporary = tempfile.mkstemp(dir=target.parent, prefix=".dpsim-")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        # Temporary files are private to their owner; this one becomes an ordinary file.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C too
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """Return the process's mask for the rights of new files, which temporary files ignore."""
    # The mask can be read only by setting another one.
    mask = os.umask(0)
    os.umask(mask)
    return mask
