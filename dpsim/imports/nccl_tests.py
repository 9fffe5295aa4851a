"""Parse the log of an nccl-tests program (such as all_reduce_perf): ranks, sizes and times.

In the printed form, columns are read by their names in the header, since versions differ: ``size
count type [redop] [root] time algbw busbw #wrong``, the last four out of place and again in place.
The JSON of ``-J FILE`` (version 2.17 and later; src/util.cu of NVIDIA/nccl-tests) has the same, and
one entry of ``devices`` per process, with ``nthreads`` x ``ngpus`` ranks. Sizes are bytes, times
microseconds, rates GB/s.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, PositiveInt, ValidationError

from dpsim.base.config import first_problem
from dpsim.base.errors import UnknownNameError
from dpsim.collectives import OPERATIONS
from dpsim.imports.reading import ImportFileError, text_lines

_PROGRAM = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|gather|scatter)_perf\b"
)
_OPERATIONS = {"alltoall": "all-to-all"}
_MOST_ROWS = 10_000
_LEAST_US = 1e-6  # of a time: shorter ones are mistakes, with no logarithm to fit


@dataclass(frozen=True, slots=True)
class TableRow:
    """One size of the table: bytes, seconds and busbw (B/s) out of place.

    It also has the in-place times in s; None if they were not measured.
    """

    bytes: int
    time_s: float
    busbw_Bps: float
    in_place_time_s: float | None
    line: int


@dataclass(frozen=True, slots=True)
class NcclTestsLog:
    """A log: the operation, its ranks on their hosts and devices, and the table.

    ``notes``: the assumptions, and what was ignored, a line each.
    """

    operation: str
    ranks: int
    hosts: int
    devices: tuple[str, ...]
    rows: tuple[TableRow, ...]
    nccl_version: str
    wrong_values: int
    notes: tuple[str, ...] = ()


def _notes(empty: int, *, guessed: bool, one_host: bool) -> Iterator[str]:
    """Yield the assumptions about a log, and what is ignored with what effect.

    ``empty`` rows have 0 bytes, the operation is ``guessed``, no hosts are listed (``one_host``).
    """
    if guessed:
        yield "assumed: the operation, by the ratio of the two rates; --operation"
    if one_host:
        yield "assumed: one host, since none is listed: the profile's formula does not use it"
    if empty:
        yield f"ignored: {empty} rows of 0 bytes, which move nothing"


def _operation_of_program(text: str) -> str | None:
    """Return the operation of the first program named in ``text``; None if there is none."""
    match = _PROGRAM.search(text)
    return None if match is None else _OPERATIONS.get(match[1], match[1].replace("_", "-"))


# Operations by whether they reduce, and whether they have a root.
_LIKE_THESE = {
    (False, False): ("all-gather", "all-to-all"),
    (False, True): ("broadcast",),
    (True, False): ("all-reduce", "reduce-scatter"),
    (True, True): ("reduce",),
}


def _guessed_operation(sums: bool, rooted: bool, rows: Sequence[TableRow], ranks: int) -> str:
    """Return the only operation that matches the ratio of the two rates.

    It is used if the program is not named. ``sums``: it reduces; ``rooted``: it has a root. Raises
    ImportFileError if several match.
    """
    # Rates are printed with two decimals; the largest size loses least by this.
    row = max(rows, key=lambda one: one.bytes)
    factor = row.busbw_Bps * row.time_s / row.bytes
    fitting = [
        name
        for name in _LIKE_THESE[sums, rooted]
        if abs(OPERATIONS[name].bus_factor(ranks) - factor) < 0.05 * factor
    ]
    if len(fitting) != 1:
        raise ImportFileError(
            "must name its program (all_reduce_perf ...), but does not: say which with "
            "--operation, such as all-reduce"
        )
    return fitting[0]


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
        return _parse_json(content, operation, ranks)
    lines = [_PREFIX.sub("", line) for line in text_lines(content)]
    listed = _ranks(lines)
    header, every_row, first_row = _table(lines)
    rows = tuple(row for row in every_row if row.bytes > 0)
    count = ranks or len(listed)
    if count < 1:
        raise ImportFileError(
            "must list its ranks (lines '#  Rank  0 ...'), but does not: say how many with --ranks"
        )
    whole = "\n".join(lines)
    version = _VERSION.search(whole)
    wrong = _BAD_VALUES.search(whole)
    named = operation or _operation_of_program(whole)
    notes = _notes(len(every_row) - len(rows), guessed=named is None, one_host=not listed)
    return NcclTestsLog(
        named or _guessed_operation(*_traits(header, first_row), rows, count),
        count,
        len({host for host, _ in listed.values()}) or 1,
        tuple(dict.fromkeys(device for _, device in listed.values() if device)),
        rows,
        "" if version is None else version[1] or version[2],
        0 if wrong is None else int(wrong[1]),
        tuple(notes),
    )


def _ranks(lines: list[str]) -> dict[int, tuple[str, str]]:
    """Return the host and device of each rank."""
    devices: dict[int, tuple[str, str]] = {}
    for number, line in enumerate(lines, 1):
        if match := _RANK.match(line.strip()):
            rank = int(match[1])
            # The rows of two runs in one file would be fitted as one.
            if rank in devices:
                raise ImportFileError(
                    f"must be the log of one run, but rank {rank} is listed a second time", number
                )
            devices[rank] = (match[2], match[3].strip())
    if devices and sorted(devices) != list(range(len(devices))):
        missing = next(rank for rank in range(len(devices)) if rank not in devices)
        raise ImportFileError(f"must list every rank, but has no rank {missing}")
    return devices


def _table(lines: list[str]) -> tuple[_Header, list[TableRow], list[str]]:
    """Return the header, the rows, and the words of the first row."""
    header: _Header | None = None
    rows: list[TableRow] = []
    first: list[str] = []
    for number, line in enumerate(lines, 1):
        cells = line.split()
        if cells[:1] == ["#"] and {"size", "time", "busbw"} <= set(cells):
            header = _Header(cells[1:], number)
        elif header and cells and cells[0].isdecimal():
            rows.append(_row(header, cells, number))
            first = first or cells
            if len(rows) > _MOST_ROWS:
                raise ImportFileError(f"the table must have at most {_MOST_ROWS:,} rows", number)
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
    if time is None or time < _LEAST_US or busbw is None or int(words[0]) > 2**60:
        raise ImportFileError(
            f"the row must have a time of at least {_LEAST_US:g} us and a bandwidth, but got "
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


def _traits(header: _Header, words: list[str]) -> tuple[bool, bool]:
    """Return whether the operation reduces, and whether it has a root.

    Others print none or -1 there, or lack the column.
    """
    sums = "redop" in header.names and words[header.names.index("redop")] != "none"
    rooted = "root" in header.names and words[header.names.index("root")] != "-1"
    return sums, rooted


_LARGEST_NUMBER = 1e15  # limit of times and rates: more is no measurement
_Number = Annotated[float, Field(ge=0, lt=_LARGEST_NUMBER)]


class _Part(BaseModel):
    """The part of an object that is read; the rest is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Times(_Part):
    """One side of a row, out of place or in place."""

    time: Annotated[float, Field(ge=_LEAST_US, lt=_LARGEST_NUMBER)]
    bus_bw: _Number


class _JsonRow(_Part):
    size: Annotated[int, Field(ge=0, le=2**60)]
    redop: str = "none"
    root: str = "-1"
    out_of_place: _Times | None
    in_place: _Times | None = None


class _Device(_Part):
    hostname: str = ""
    device_info: str = ""


class _Settings(_Part):
    nthreads: PositiveInt
    ngpus: PositiveInt
    devices: Annotated[tuple[_Device, ...], Field(min_length=1)]


class _Wrong(_Part):
    count: Annotated[int, Field(ge=0)] = 0


class _Report(_Part):
    version: Literal[1, 2]
    args: tuple[str, ...] = ()
    nccl_version: int | None = None
    config: _Settings
    results: Annotated[tuple[_JsonRow, ...], Field(max_length=_MOST_ROWS)]
    out_of_bounds: _Wrong = _Wrong()


def _parse_json(content: bytes, operation: str | None, ranks: int | None) -> NcclTestsLog:
    """Parse a JSON log.

    Raises ImportFileError, with the place, for an invalid file, and for a run that was not finished
    or has no sizes.
    """
    try:
        report = _Report.model_validate_json(content)
    except ValidationError as error:
        raise ImportFileError(_problem(error)) from None
    # Sizes without an element for each rank are written as 0 bytes.
    sized = [(number, row) for number, row in enumerate(report.results) if row.size > 0]
    rows = tuple(_json_row(number, row) for number, row in sized)
    if not rows:
        raise ImportFileError("results: must have rows of sizes above 0, but has none")
    settings, first = report.config, report.results[0]
    count = ranks or len(settings.devices) * settings.nthreads * settings.ngpus
    names = dict.fromkeys(device.device_info for device in settings.devices if device.device_info)
    program = PurePosixPath(report.args[0]).name if report.args else ""
    named = operation or _operation_of_program(program)
    traits = first.redop != "none", first.root.strip() != "-1"
    notes = _notes(len(report.results) - len(rows), guessed=named is None, one_host=False)
    return NcclTestsLog(
        named or _guessed_operation(*traits, rows, count),
        count,
        len({device.hostname for device in settings.devices}),
        tuple(names),
        rows,
        "" if report.nccl_version is None else str(report.nccl_version),
        report.out_of_bounds.count,
        tuple(notes),
    )


def _json_row(number: int, row: _JsonRow) -> TableRow:
    if row.out_of_place is None:
        raise ImportFileError(f"results.{number}.out_of_place: must be measured, but is null")
    in_place = row.in_place
    return TableRow(
        row.size,
        row.out_of_place.time * 1e-6,
        row.out_of_place.bus_bw * 1e9,
        None if in_place is None else in_place.time * 1e-6,
        # Rows in JSON have a place, which errors name, but no line.
        0,
    )


def _problem(error: ValidationError) -> str:
    """Return the first problem, with its place: ``results.3.size: must be ...``."""
    place, what, given = first_problem(error)
    if not place:
        return f"must be the JSON of an nccl-tests program, but: {what}"
    shown = f", but got {given!r}" if isinstance(given, str | int | float) else ""
    return f"{place}: {what}{shown[:100]}"
