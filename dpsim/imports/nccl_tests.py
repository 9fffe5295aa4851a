"""Parse the log of an nccl-tests program (such as all_reduce_perf): ranks, sizes and times.

This module reads the printed form; `nccl_tests_json` reads the output of ``-J``.

The columns are read by their names in the header, since versions differ: ``size count type [redop]
[root] time algbw busbw #wrong``, the last four out of place and again in place. Sizes are bytes,
times microseconds, rates GB/s.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from dpsim.base.errors import UnknownNameError
from dpsim.collectives import OPERATIONS
from dpsim.imports.nccl_tests_json import parse_json
from dpsim.imports.nccl_tests_log import (
    LEAST_US,
    MOST_ROWS,
    NcclTestsLog,
    TableRow,
    guessed_operation,
    log_notes,
    operation_of_program,
)
from dpsim.imports.reading import ImportFileError, text_lines

_PREFIX = re.compile(
    r"^(\[\d+,\d+\]\s?<std\w+>:?\s?|\d+:\s)"
)  # of mpirun --tag-output and of srun --label
_RANK = re.compile(
    r"#\s+Rank\s+(\d+)\s+(?:Group\s+\d+\s+)?Pid\s+\d+\s+on\s+(\S+)\s+device\s+\d+\s+\[[^\]]*\]\s*(.*)"
)
_VERSION = re.compile(r"NCCL version\s+(\S+)|nccl-library=(\d+)")
_BAD_VALUES = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)")


@dataclass(frozen=True, slots=True)
class _Header:
    """The names of the columns, and the header's line."""

    names: list[str]
    line: int

    def columns(self, name: str) -> list[int]:
        return [place for place, found in enumerate(self.names) if found == name]


def parse_nccl_tests(
    content: bytes, operation: str | None = None, ranks: int | None = None
) -> NcclTestsLog:
    """Parse the log in ``content``, printed or JSON.

    ``operation`` and ``ranks`` are for logs without them. Raises ImportFileError, with the line if
    there is one, for a log without a table or with broken rows.
    """
    if operation is not None and operation not in OPERATIONS:
        raise UnknownNameError("operation", operation, OPERATIONS)
    if content.lstrip().startswith(b"{"):
        return parse_json(content, operation, ranks)
    lines = [_PREFIX.sub("", line) for line in text_lines(content)]
    listed = _ranks(lines)
    header, every_row, words = _table(lines)
    rows = [row for row in every_row if row.bytes > 0]
    count = ranks or len(listed)
    if count < 1:
        raise ImportFileError(
            "must list its ranks (lines '#  Rank  0 ...'), but does not: say how many with --ranks"
        )
    whole = "\n".join(lines)
    version = _VERSION.search(whole)
    wrong = _BAD_VALUES.search(whole)
    return NcclTestsLog(
        operation or _operation(whole, header, words, rows, count),
        count,
        len({host for host, _ in listed.values()}) or 1,
        tuple(dict.fromkeys(device for _, device in listed.values() if device)),
        tuple(rows),
        "" if version is None else version[1] or version[2],
        0 if wrong is None else int(wrong[1]),
        tuple(
            log_notes(
                empty=len(every_row) - len(rows),
                guessed=operation is None and operation_of_program(whole) is None,
                one_host=not listed,
            )
        ),
    )


def _ranks(lines: list[str]) -> dict[int, tuple[str, str]]:
    """Return the host and device of each rank."""
    found: dict[int, tuple[str, str]] = {}
    for number, line in enumerate(lines, 1):
        if match := _RANK.match(line.strip()):
            rank = int(match[1])
            # The rows of two runs in one file would be fitted as one.
            if rank in found:
                raise ImportFileError(
                    f"must be the log of one run, but rank {rank} is listed a second time", number
                )
            found[rank] = (match[2], match[3].strip())
    if found and sorted(found) != list(range(len(found))):
        missing = next(rank for rank in range(len(found)) if rank not in found)
        raise ImportFileError(f"must list every rank, but has no rank {missing}")
    return found


def _table(lines: list[str]) -> tuple[_Header, list[TableRow], list[str]]:
    """Return the header, the rows, and the words of the first row."""
    header: _Header | None = None
    rows: list[TableRow] = []
    first: list[str] = []
    for number, line in enumerate(lines, 1):
        words = line.split()
        if words[:1] == ["#"] and {"size", "time", "busbw"} <= set(words):
            header = _Header(words[1:], number)
        elif header and words and words[0].isdecimal():
            rows.append(_row(header, words, number))
            first = first or words
            if len(rows) > MOST_ROWS:
                raise ImportFileError(f"the table must have at most {MOST_ROWS:,} rows", number)
    if header is None:
        raise ImportFileError(
            "must have the table of an nccl-tests program, but no line begins with '#' and names "
            "size, time and busbw"
        )
    # Sizes without an element for each rank are printed as 0 bytes.
    if not any(row.bytes for row in rows):
        raise ImportFileError(
            "the table must have rows of sizes above 0, but has none after its header", header.line
        )
    return header, rows, first


def _row(header: _Header, words: list[str], number: int) -> TableRow:
    if len(words) != len(header.names):
        raise ImportFileError(
            f"the row must have the {len(header.names)} columns of the header in line "
            f"{header.line}, but has {len(words)}",
            number,
        )
    time, *others = [_float(words[place], number) for place in header.columns("time")]
    busbw = _float(words[header.columns("busbw")[0]], number)
    if time is None or time < LEAST_US or busbw is None or int(words[0]) > 2**60:
        raise ImportFileError(
            f"the row must have a time of at least {LEAST_US:g} us and a bandwidth, but got "
            f"{words[header.columns('time')[0]]!r}",
            number,
        )
    # The columns occur twice, out of place first.
    in_place = others[0] if others else None
    return TableRow(
        int(words[0]),
        time * 1e-6,
        busbw * 1e9,
        None if in_place is None else in_place * 1e-6,
        number,
    )


def _float(text: str, number: int) -> float | None:
    """Return a number of at least 0, or None for N/A."""
    if text == "N/A":
        return None
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 <= value < 1e15:
        raise ImportFileError(f"must be a number, but got {text!r}", number)
    return value


def _operation(
    whole: str, header: _Header, words: list[str], rows: list[TableRow], ranks: int
) -> str:
    """Return the operation named in the log, or the one that matches its columns."""
    named = operation_of_program(whole)
    if named is not None:
        return named
    # Operations without reduction or root print none or -1 there, or lack the column.
    sums = "redop" in header.names and words[header.names.index("redop")] != "none"
    rooted = "root" in header.names and words[header.names.index("root")] != "-1"
    return guessed_operation(sums, rooted, rows, ranks)
