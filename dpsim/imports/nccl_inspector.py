"""Read the log of NCCL's profiler plugin "inspector": the timed collectives of a running job.

Each process writes JSON objects one after the other, one for each collective that its rank has
ended: ``header`` (communicator, rank, n_ranks, nnodes) and ``coll_perf`` (coll, coll_sn, size,
microseconds, GB/s). A rank's time starts at its own arrival, so that the last rank to arrive has
the shortest: if several ranks logged a collective, its time is the minimum. Source of the format:
ext-profiler/inspector/README.md of NVIDIA/nccl.
"""

from __future__ import annotations

import json
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from dpsim.base.errors import DpsimError, UnknownNameError
from dpsim.base.files import read_limited, shown_path
from dpsim.collectives import OPERATIONS
from dpsim.imports.nccl_tests_log import LEAST_US, MOST_ROWS, NcclTestsLog, TableRow
from dpsim.imports.reading import ImportFileError, files_in

_MOST_BYTES = 256 * 2**20  # of a file
_MOST_CALLS = 4_000_000  # of all files
_ENDINGS = (".log", ".json", ".jsonl")
# All-to-all is missing, since the plugin's documentation does not define its size.
_OPERATIONS = {
    "AllReduce": "all-reduce",
    "AllGather": "all-gather",
    "ReduceScatter": "reduce-scatter",
    "Broadcast": "broadcast",
    "Reduce": "reduce",
}
_SPACE = re.compile(r"\s*")
# Their size is one rank's part, while nccl-tests and dpsim count the whole vector.
_OF_PARTS = ("all-gather", "reduce-scatter")

_Kind = tuple[str, int, int]  # operation, ranks, nodes
_Call = tuple[_Kind, str, int, int]  # communicator, number, bytes of the vector


@dataclass(frozen=True, slots=True)
class InspectorLog:
    """The collectives of one kind as a table of sizes, and remarks on the rest of the log."""

    table: NcclTestsLog
    calls: int
    notes: tuple[str, ...]


def read_inspector(
    path: Path, operation: str | None = None, ranks: int | None = None
) -> InspectorLog:
    """Read the log of one process, or a folder with those of all.

    Of several kinds of collectives the one with the most time is chosen, or that of ``operation``
    and ``ranks``. Raises DpsimError, beginning with the file, and with the line if there is one.
    """
    if operation is not None and operation not in OPERATIONS:
        raise UnknownNameError("operation", operation, OPERATIONS)
    times: dict[_Call, list[float]] = defaultdict(list)
    cut, unread = 0, 0
    for file in files_in(path, _ENDINGS) if path.is_dir() else [path]:
        try:
            cut_here, unread_here = _read(file, times)
        except ImportFileError as problem:
            raise problem.of(file) from None
        cut, unread = cut + cut_here, unread + unread_here
    if not times:
        raise DpsimError(
            f"{shown_path(path)}: must have records with coll_perf, as NCCL's inspector writes "
            "them, but has none"
        )
    kind = _kind(path, times, operation, ranks)
    calls = {call: taken for call, taken in times.items() if call[0] == kind}
    notes = tuple(_notes(times, kind, cut, unread))
    return InspectorLog(_table(path, kind, calls), len(calls), notes)


def _read(file: Path, times: dict[_Call, list[float]]) -> tuple[int, int]:
    """Add the seconds of each collective.

    Return how many records are truncated, 0 or 1, and how many are of other kinds.
    """
    unread = 0
    text = read_limited(file, _MOST_BYTES).decode("utf-8", errors="replace")
    for record, line in _records(text):
        if record is None:
            return 1, unread
        call = _call(record, line)
        if call is None:
            unread += 1
        else:
            times[call[0]].append(call[1])
        if len(times) > _MOST_CALLS:
            raise ImportFileError(f"must have at most {_MOST_CALLS:,} collectives", line)
    return 0, unread


def _records(text: str) -> Iterator[tuple[Any, int]]:
    """Yield the JSON values of a text with their lines; None for a truncated last one."""
    decoder = json.JSONDecoder()
    place, line = 0, 1
    while True:
        start = _SPACE.match(text, place).end()  # type: ignore[union-attr]
        line += text.count("\n", place, start)
        if start == len(text):
            return
        try:
            record, place = decoder.raw_decode(text, start)
        except (ValueError, RecursionError) as error:
            # A killed job leaves its last line unfinished.
            if line > 1 and text.find("\n", start) < 0:
                yield None, line
                return
            reason = getattr(error, "msg", None) or str(error)[:100]
            raise ImportFileError(f"must be JSON objects, but: {reason}", line) from None
        yield record, line
        line += text.count("\n", start, place)


def _call(record: Any, line: int) -> tuple[_Call, float] | None:
    """Return the collective of a record and its rank's seconds; None for other records."""
    said = record.get("coll_perf") if isinstance(record, dict) else None
    if said is None and isinstance(record, dict):
        return None
    header = record.get("header") if isinstance(record, dict) else None
    if not isinstance(said, dict) or not isinstance(header, dict):
        raise ImportFileError("must be an object with header and coll_perf", line)
    operation = _operation(said.get("coll"), line)
    ranks = _whole(header, "n_ranks", 1, 2**20, line)
    nodes = _whole(header, "nnodes", 1, 2**20, line)
    number = _whole(said, "coll_sn", 0, 2**63, line)
    nbytes = _whole(said, "coll_msg_size_bytes", 0, 2**60, line)
    micros = _number(said, "coll_exec_time_us", line)
    # Nothing was sent, or it took less than the clock's resolution.
    if operation is None or nbytes == 0 or micros < LEAST_US:
        return None
    if operation in _OF_PARTS:
        nbytes *= ranks
    kind = (operation, ranks, nodes)
    return (kind, str(header.get("id", ""))[:64], number, nbytes), micros * 1e-6


def _operation(name: object, line: int) -> str | None:
    """Return all-reduce for ``AllReduce``; None for operations that are not read."""
    if not isinstance(name, str):
        raise ImportFileError(f"coll_perf.coll: must be a name, but got {str(name)[:60]!r}", line)
    return _OPERATIONS.get(name)


def _whole(said: dict[str, Any], key: str, least: int, most: int, line: int) -> int:
    value = said.get(key)
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if not is_whole or not least <= int(value or 0) <= most:
        raise ImportFileError(
            f"{key}: must be a whole number from {least} on, but got {repr(value)[:60]}", line
        )
    return int(value or 0)


def _number(said: dict[str, Any], key: str, line: int) -> float:
    value = said.get(key)
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not 0 <= (value or 0) < 1e12:
        raise ImportFileError(
            f"{key}: must be a number from 0 on, but got {repr(value)[:60]}", line
        )
    return float(value or 0)


def _kind(
    path: Path, times: dict[_Call, list[float]], operation: str | None, ranks: int | None
) -> _Kind:
    """Return the requested kind, of several the one whose collectives took most time."""
    spent: Counter[_Kind] = Counter()
    for call, taken in times.items():
        if operation in (None, call[0][0]) and ranks in (None, call[0][1]):
            # The minimum over its ranks: the last to arrive did not wait.
            spent[call[0]] += min(taken)  # type: ignore[assignment]
    if not spent:
        have = ", ".join(sorted({_named(call[0]) for call in times})[:8])
        raise DpsimError(f"{shown_path(path)}: must have such a collective, but has {have}")
    return max(spent, key=lambda kind: (spent[kind], kind))


def _named(kind: _Kind) -> str:
    operation, ranks, nodes = kind
    return f"{operation} of {ranks} ranks on {nodes} {'nodes' if nodes > 1 else 'node'}"


def _table(path: Path, kind: _Kind, calls: dict[_Call, list[float]]) -> NcclTestsLog:
    """Return a row for each size: the median over its calls of the minimum over ranks."""
    operation, ranks, nodes = kind
    by_size: dict[int, list[float]] = defaultdict(list)
    for (_, _, _, nbytes), taken in calls.items():
        by_size[nbytes].append(min(taken))
    if len(by_size) > MOST_ROWS:
        raise DpsimError(f"{shown_path(path)}: must have at most {MOST_ROWS:,} sizes")
    factor = OPERATIONS[operation].bus_factor(ranks)
    rows = []
    for nbytes in sorted(by_size):
        seconds = median(by_size[nbytes])
        rows.append(TableRow(nbytes, seconds, nbytes / seconds * factor, None, 0))
    return NcclTestsLog(operation, ranks, nodes, (), tuple(rows), "", 0)


def _notes(times: dict[_Call, list[float]], kind: _Kind, cut: int, unread: int) -> Iterable[str]:
    counts = Counter(call[0] for call in times)
    for other, count in sorted(counts.items()):
        if other != kind:
            yield f"ignored: {count:,} of {_named(other)} (--operation, --ranks)"
    alone = sum(len(taken) == 1 for call, taken in times.items() if call[0] == kind)
    if alone and kind[1] > 1:
        share = alone / counts[kind]
        yield (
            f"assumed: the times of {math.ceil(100 * share)} % of the collectives, which one rank "
            "alone logged, hold its waiting for the others"
        )
    if unread:
        yield f"ignored: {unread:,} records of other operations, of no bytes or of no duration"
    if cut:
        yield f"ignored: the last record of {cut} files, which was not written out"
