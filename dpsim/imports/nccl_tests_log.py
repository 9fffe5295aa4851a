"""What a log of nccl-tests says, whether it was printed or written as JSON."""

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
LEAST_US = 1e-6  # of a time: what is shorter is a slip, and has no logarithm to fit


@dataclass(frozen=True, slots=True)
class TableRow:
    """One size of the table: bytes, seconds and busbw (B/s) out of place.

    Seconds in place stand beside them, or None where they were not measured.
    """

    bytes: int
    time_s: float
    busbw_Bps: float
    in_place_time_s: float | None
    line: int


@dataclass(frozen=True, slots=True)
class NcclTestsLog:
    """What a log says: the operation, its ranks on their hosts and devices, and the table.

    ``notes``: what was assumed and what was ignored, a line each.
    """

    operation: str
    ranks: int
    hosts: int
    devices: tuple[str, ...]
    rows: tuple[TableRow, ...]
    nccl_version: str
    average_busbw_Bps: float | None
    wrong_values: int
    notes: tuple[str, ...] = ()


def log_notes(*, empty: int, guessed: bool, one_host: bool) -> Iterator[str]:
    """What is assumed and what is ignored of a log, with its effect.

    ``empty`` rows have 0 bytes, the operation is ``guessed``, no hosts are listed (``one_host``).
    """
    if guessed:
        yield "assumed: the operation, by the ratio of the two rates; --operation"
    if one_host:
        yield "assumed: one host, since none is listed: the profile's formula does not use it"
    if empty:
        yield f"ignored: {empty} rows of 0 bytes, which move nothing"


def operation_of_program(text: str) -> str | None:
    """The operation of the first program that ``text`` names; None where it names none."""
    match = _PROGRAM.search(text)
    return None if match is None else _OPERATIONS.get(match[1], match[1].replace("_", "-"))


# Operations by whether they add up, and whether they have a root.
_LIKE_THESE = {
    (False, False): ("all-gather", "all-to-all"),
    (False, True): ("broadcast",),
    (True, False): ("all-reduce", "reduce-scatter"),
    (True, True): ("reduce",),
}


def guessed_operation(sums: bool, rooted: bool, rows: Sequence[TableRow], ranks: int) -> str:
    """The only operation that fits the ratio of the two rates, where the program is not named.

    ``sums``: it adds up; ``rooted``: it has a root. Raises ImportFileError where several fit.
    """
    # Rates are printed with two digits after the point, of which the largest size loses least.
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
