"""The content of an nccl-tests log, printed or JSON."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dpsim.collectives import OPERATIONS
from dpsim.imports.reading import ImportFileError

_PROGRAM = re.compile(
    r"\b(all_reduce|all_gather|reduce_scatter|alltoall|broadcast|reduce|gather|scatter)_perf\b"
)
_OPERATIONS = {"alltoall": "all-to-all"}
MOST_ROWS = 10_000
LEAST_US = 1e-6  # of a time: shorter ones are mistakes, with no logarithm to fit


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


def log_notes(*, empty: int, guessed: bool, one_host: bool) -> Iterator[str]:
    """Yield the assumptions about a log, and what is ignored with what effect.

    ``empty`` rows have 0 bytes, the operation is ``guessed``, no hosts are listed (``one_host``).
    """
    if guessed:
        yield "assumed: the operation, by the ratio of the two rates; --operation"
    if one_host:
        yield "assumed: one host, since none is listed: the profile's formula does not use it"
    if empty:
        yield f"ignored: {empty} rows of 0 bytes, which move nothing"


def operation_of_program(text: str) -> str | None:
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


def guessed_operation(sums: bool, rooted: bool, rows: Sequence[TableRow], ranks: int) -> str:
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
