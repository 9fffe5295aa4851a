"""Parse the JSON that an nccl-tests program writes with ``-J FILE`` (version 2.17 and later).

Times are microseconds, rates GB/s, sizes bytes. ``devices`` has one entry per process, with
``nthreads`` x ``ngpus`` ranks. Source of the format: src/util.cu of NVIDIA/nccl-tests.
"""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Annotated, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
)

from dpsim.base.config import first_problem
from dpsim.imports.nccl_tests_log import (
    LEAST_US,
    MOST_ROWS,
    NcclTestsLog,
    TableRow,
    guessed_operation,
    log_notes,
    operation_of_program,
)
from dpsim.imports.reading import ImportFileError

_MOST = 1e15  # limit of times and rates: more is no measurement
Number = Annotated[float, Field(ge=0, lt=_MOST)]


class _Part(BaseModel):
    """The part of an object that is read; the rest is ignored."""

    model_config = ConfigDict(frozen=True, extra="ignore", allow_inf_nan=False)


class _Times(_Part):
    """One side of a row, out of place or in place."""

    time: Annotated[float, Field(ge=LEAST_US, lt=_MOST)]
    bus_bw: Number


class _Row(_Part):
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
    results: Annotated[tuple[_Row, ...], Field(max_length=MOST_ROWS)]
    out_of_bounds: _Wrong = _Wrong()


def parse_json(content: bytes, operation: str | None, ranks: int | None) -> NcclTestsLog:
    """Parse the log in ``content``; ``operation`` and ``ranks`` override the file's.

    Raises ImportFileError, with the place, for an invalid file, and for a run that was not finished
    or has no sizes.
    """
    try:
        report = _Report.model_validate_json(content)
    except ValidationError as error:
        raise ImportFileError(_problem(error)) from None
    # Sizes without an element for each rank are written as 0 bytes.
    rows = tuple(_row(number, row) for number, row in enumerate(report.results) if row.size > 0)
    if not rows:
        raise ImportFileError("results: must have rows of sizes above 0, but has none")
    settings = report.config
    count = ranks or len(settings.devices) * settings.nthreads * settings.ngpus
    hosts = {device.hostname for device in settings.devices}
    names = dict.fromkeys(device.device_info for device in settings.devices if device.device_info)
    return NcclTestsLog(
        operation or _operation(report, rows, count),
        count,
        len(hosts),
        tuple(names),
        rows,
        "" if report.nccl_version is None else str(report.nccl_version),
        report.out_of_bounds.count,
        tuple(
            log_notes(
                empty=len(report.results) - len(rows),
                guessed=operation is None and _named(report) is None,
                one_host=False,
            )
        ),
    )


def _row(number: int, row: _Row) -> TableRow:
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


def _operation(report: _Report, rows: tuple[TableRow, ...], ranks: int) -> str:
    named = _named(report)
    if named is not None:
        return named
    first = report.results[0]
    rooted = first.root.strip() != "-1"
    return guessed_operation(first.redop != "none", rooted, rows, ranks)


def _named(report: _Report) -> str | None:
    """Return the operation of the program that was run; None if the file does not name it."""
    return operation_of_program(PurePosixPath(report.args[0]).name if report.args else "")


def _problem(error: ValidationError) -> str:
    """Return the first problem, with its place: ``results.3.size: must be ...``."""
    place, what, given = first_problem(error)
    if not place:
        return f"must be the JSON of an nccl-tests program, but: {what}"
    shown = f", but got {given!r}" if isinstance(given, str | int | float) else ""
    return f"{place}: {what}{shown[:100]}"
