"""What commands do with results.

Tables and JSON on stdout, whole files or none, narration on stderr.
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
from collections.abc import Iterable, Iterator
from contextvars import ContextVar
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from dpsim.base.errors import DpsimError
from dpsim.base.files import is_input, shown_path

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions
    from rich.table import Column, Table

_WIDE = 160  # columns
_LONGEST_LINE = 800  # characters
_LONGEST_WORD = 20  # columns that a column of prose has at least, even if it has longer words


def clear_line(text: str) -> str:
    """A line that does nothing to a terminal, and is not endless.

    Messages repeat what users and files said, and what libraries say of those.
    """
    shown = spelled_out(text)
    if len(shown) <= _LONGEST_LINE:
        return shown
    # Both ends are kept: messages begin with where, and end with what was got.
    half = _LONGEST_LINE // 2 - 3
    return f"{shown[:half]} ... {shown[-half:]}"


def spelled_out(text: str) -> str:
    """A text with what would drive a terminal spelled out, lines apart."""
    if text.isprintable():
        return text
    return "".join(
        sign if sign.isprintable() or sign == "\n" else repr(sign)[1:-1] for sign in text
    )


def show(*parts: Table | str) -> None:
    """Print tables and lines on stdout, made to fit a terminal.

    Where stdout is none, they are up to 160 columns wide.
    """
    from rich.console import Console

    width = min(_WIDE, shutil.get_terminal_size().columns) if sys.stdout.isatty() else _WIDE
    # Without markup: users' names may hold square brackets, which it would read as styles.
    console = Console(highlight=False, markup=False, width=_WIDE)
    for part in parts:
        if isinstance(part, str):
            for line in spelled_out(part).splitlines() or [""]:
                console.print(_wrapped(line, width), soft_wrap=True)
            continue
        _spell_out(part)
        if part.title:
            console.print(part.title, style="table.title", soft_wrap=True)
            part.title = None  # a title would be wrapped to the width of its table
        for piece in _pieces(part, width, console):
            console.print(piece)


def _spell_out(table: Table) -> None:
    """Make harmless what users and files said in a table."""
    if isinstance(table.title, str):
        table.title = spelled_out(table.title)
    for column in table.columns:
        cells = (column.header, *column.cells)
        column.header, *column._cells = (
            spelled_out(cell) if isinstance(cell, str) else cell for cell in cells
        )


def _wrapped(line: str, width: int) -> str:
    """A line that is too long as several, those after the first indented by two more."""
    indent = len(line) - len(line.lstrip()) + 2
    return textwrap.fill(
        line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )


def _pieces(table: Table, width: int, console: Console) -> list[Table]:
    """A table that fits into ``width``, or several below each other that do.

    Columns of numbers go on below, behind the columns that say what the rows are. A table that has
    none, or that is too wide with one of them, is left as it is.
    """
    if _fit(table, width, console):
        return [table]

    is_number = [column.justify == "right" for column in table.columns]
    if not any(is_number):
        return [table]
    named = is_number.index(True)
    pieces: list[Table] = []
    start = named
    for end in range(named + 1, len(is_number) + 1):
        # One column more than fits: the piece ends before it.
        if not _fit(_columns(table, named, start, end), width, console):
            if end == start + 1:
                return [table]
            pieces.append(_columns(table, named, start, end - 1))
            start = end - 1
    pieces.append(_columns(table, named, start, len(is_number)))
    if not all(_fit(piece, width, console) for piece in pieces):
        return [table]
    return pieces


def _columns(table: Table, named: int, start: int, end: int) -> Table:
    """The columns from ``start`` to before ``end``, behind the ``named`` first ones."""
    from rich.table import Table

    piece = Table(show_edge=table.show_edge)
    chosen = [*table.columns[:named], *table.columns[start:end]]
    for column in chosen:
        piece.add_column(column.header, justify=column.justify, overflow=column.overflow)
    for cells in zip(*(column.cells for column in chosen), strict=True):
        piece.add_row(*cells)
    return piece


def _fit(table: Table, width: int, console: Console) -> bool:
    """Make a table that is wider than ``width`` narrower; whether that can be.

    No word and no number is broken.
    """
    endless = console.options.update(max_width=10**6)
    whole = console.measure(table, options=endless).maximum
    if whole <= width:
        return True

    limits = [_limits(column, console, endless) for column in table.columns]
    spare = width - whole + sum(each.wanted for each in limits)
    # The blanks on both sides of each column are given up only where that is enough.
    if spare < 0 <= spare + 2 * len(limits):
        table.padding = (0, 0)
        spare += 2 * len(limits)
    if spare < 0:
        return False
    _spread(spare, table.columns, limits)
    return True


class _Limits(NamedTuple):
    """How narrow a column can be, and how wide it would be."""

    least: int
    most: int

    @property
    def wanted(self) -> int:
        """What it would take beyond what it needs."""
        return self.most - self.least


def _limits(column: Column, console: Console, options: ConsoleOptions) -> _Limits:
    """From how narrow a column can be to how wide it would be.

    Headings and prose are wrapped, numbers are not.
    """
    heading = console.measure(column.header, options=options)
    cells = [console.measure(cell, options=options) for cell in column.cells]
    least = heading.minimum
    for cell in cells:
        # Columns of numbers stand to the right.
        least = max(least, cell.maximum if column.justify == "right" else cell.minimum)
    if column.overflow == "fold":
        least = min(least, _LONGEST_WORD)
    most = max(cell.maximum for cell in (heading, *cells))
    return _Limits(least, most)


def _spread(spare: int, columns: list[Column], limits: list[_Limits]) -> None:
    """Give columns what they need, and equal shares of ``spare`` as far as they want them."""
    # Those that want least come first: what they leave over is shared among the rest.
    order = sorted(range(len(columns)), key=lambda place: limits[place].wanted)
    for done, place in enumerate(order):
        share = spare // (len(order) - done)
        more = min(share, limits[place].wanted)
        columns[place].width = limits[place].least + more
        spare -= more


def show_json(content: dict[str, Any]) -> None:
    """Print an object as JSON on stdout, or as `answer_goes` says."""
    path, is_csv = _answer.get()
    text = _as_csv(content) if is_csv else json.dumps(content, indent=2, allow_nan=False) + "\n"
    if path is None:
        sys.stdout.write(text)
        return
    write_whole(path, text)
    narrate(f"wrote {path}")


def answer_goes(path: Path | None = None, *, is_csv: bool = False) -> None:
    """Write the answer to ``path`` from here on; as CSV, of its ``rows`` or itself as the one."""
    before = _answer.get()
    _answer.set((path or before[0], is_csv or before[1]))


def _as_csv(content: dict[str, Any]) -> str:
    """A column for each value of any row; values inside values by ``outer.inner``."""
    rows = flat_rows(content)
    names = list(dict.fromkeys(name for row in rows for name in row))
    return csv_text([names, *([row.get(name) for name in names] for row in rows)])


def csv_text(rows: Iterable[Iterable[Any]]) -> str:
    """Rows as CSV, in which no text does anything to a spreadsheet or a terminal."""
    text = io.StringIO()
    # As all other text here: csv's own line ends are those of Windows.
    written = csv.writer(text, lineterminator="\n")
    written.writerows(map(harmless, row) for row in rows)
    return text.getvalue()


def harmless(cell: Any) -> Any:
    """A cell; a text that a spreadsheet would take for a formula begins with an apostrophe."""
    if not isinstance(cell, str):
        return cell
    shown = spelled_out(cell)
    return f"'{shown}" if shown.lstrip().startswith(("=", "+", "-", "@")) else shown


def flat_rows(content: dict[str, Any]) -> list[dict[str, Any]]:
    """The ``rows`` of an answer, or itself as the one; values inside values by ``outer.inner``."""
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
    """Write what stdout has buffered, where a failure is a line and a code.

    Nothing is tried again when Python ends: it would say so in its own words, with code 120.
    """
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise


class Talk(IntEnum):
    """How much is said on stderr beside errors."""

    QUIET = 0  # nothing
    NORMAL = 1
    VERBOSE = 2  # seconds too, and where an unforeseen error arose


_talk: ContextVar[Talk] = ContextVar("talk", default=Talk.NORMAL)
# The file that the answer goes to, stdout if None, and whether as CSV.
_answer: ContextVar[tuple[Path | None, bool]] = ContextVar("answer", default=(None, False))


def set_talk(talk: Talk) -> None:
    """Say more or less from here on."""
    _talk.set(talk)


def says(talk: Talk) -> bool:
    """Whether what is said at ``talk`` is said now."""
    return _talk.get() >= talk


def narrate(text: str, talk: Talk = Talk.NORMAL) -> None:
    """Say on stderr what is being done or assumed."""
    if says(talk):
        sys.stderr.write(f"{spelled_out(text)}\n")


def write_whole(path: Path, text: str | bytes) -> None:
    """Write ``text`` to ``path``, in UTF-8, so that others see the old file or the whole new one.

    A link is followed. A device or a pipe is opened and written, as is stdout by its name. Raises
    DpsimError where it cannot be written, or where it is a file that this command has read.
    """
    # What is not text, such as half of a surrogate pair in a name, is spelled out.
    content = text.encode(errors="backslashreplace") if isinstance(text, str) else text
    shown = shown_path(path)
    try:
        target = Path(os.path.realpath(path))
        status = _status(path)
        if status is not None and stat.S_ISDIR(status.st_mode):
            raise DpsimError(f"{shown}: must be a file, but is a folder")
        if status is not None and is_input(status):
            raise DpsimError(f"{shown}: must not be a file that is read, but is one")
        # Asked of the open file and not of the name: /dev/stdout and /dev/fd/1 are two of its
        # names.
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
    # A DpsimError is a ValueError too, which the clause below would take for a wrong name.
    except DpsimError:
        raise
    except ValueError:  # a null byte, or half of a surrogate pair
        raise DpsimError(f"{shown}: must be a file's name") from None


def _status(path: Path) -> os.stat_result | None:
    """Of the file that ``path`` leads to, or None where none is there yet."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None


def _append_to_stdout(content: bytes) -> None:
    # Opened by its name it would be truncated, and what is printed later would overwrite it.
    sys.stdout.flush()
    with os.fdopen(os.dup(1), "wb") as out:
        out.write(content)


def _replace(target: Path, content: bytes) -> None:
    """Write a file beside ``target`` and put it in its place; nothing is left of it otherwise."""
    # Beside the target, so in the same file system: only there is a replacement one act.
    number, temporary = tempfile.mkstemp(dir=target.parent, prefix=".dpsim-")
    try:
        with os.fdopen(number, "wb") as file:
            file.write(content)
        # Temporary files are their owner's alone; this one becomes a file like any other.
        os.chmod(temporary, 0o666 & ~_umask())
        os.replace(temporary, target)
    except BaseException:  # Ctrl-C too
        Path(temporary).unlink(missing_ok=True)
        raise


def _umask() -> int:
    """The process's mask for the rights of new files, which temporary files do not follow."""
    # The mask can be read only by setting another.
    mask = os.umask(0)
    os.umask(mask)
    return mask
