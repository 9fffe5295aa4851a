"""A collective as text: its times over sizes, NCCL's choices, and its rounds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from rich.table import Table

from dpsim.base.errors import DpsimError
from dpsim.base.terminal import table
from dpsim.base.units import DATA, RATE, TIME, human, plural, size
from dpsim.collectives import Round, Schedule
from dpsim.report.text.model_error import WITHIN, extrapolation_notes, within_cell

if TYPE_CHECKING:
    from dpsim.studies.collective import CollectiveRow
    from dpsim.studies.nccl_choices import NcclChoices, SizeChoice

_COLLECTIVES = {
    "all-reduce": "allreduce",
    "all-gather": "allgather",
    "reduce-scatter": "reducescatter",
    "broadcast": "broadcast",
}
_ALGORITHMS = {"nvlstree": "nvls_tree"}
_NCCLS_OWN = -1  # channels: NCCL's own number


def collective_table(rows: Sequence[CollectiveRow]) -> Table:
    """Return a table with the columns of nccl-tests: size, time, algbw, busbw; and traffic.

    The interval by the models' errors is beside the time if it is known.
    """
    known = any(row.interval is not None for row in rows)
    errors = [WITHIN] if known else []
    traffic = ("sent, busiest", "sent, all")
    headings = ("size", "algorithm", "time", *errors, "algbw", "busbw", *traffic)
    cells = (
        (
            size(row.bytes),
            # For `auto`, append the algorithm that it chose at this size.
            row.algorithm if row.used == row.algorithm else f"{row.algorithm}: {row.used}",
            human(row.time_s, TIME),
            *([within_cell(row.interval)] if known else []),
            human(row.algbw_Bps, RATE),
            human(row.busbw_Bps, RATE),
            human(row.bytes_sent_busiest, DATA),
            human(row.bytes_sent_total, DATA),
        )
        for row in rows
    )
    return table("", headings, cells, left=("algorithm",))


def collective_notes(rows: Sequence[CollectiveRow]) -> list[str]:
    """Return the corrections of times, and the models' extrapolations, each once."""
    nearest = dict.fromkeys(
        note for row in rows for note in nearest_notes(row.nearest_machines or ())
    )
    return [*nearest, *extrapolation_notes(row.interval for row in rows)]


def nearest_notes(nearest_machines: Sequence[str]) -> list[str]:
    """Return a line with the measured machines that corrected a time; empty without any."""
    return (
        [f"corrected by the nearest measured machines: {'; '.join(nearest_machines)}"]
        if nearest_machines
        else []
    )


def nccl_choices_table(found: NcclChoices) -> Table:
    """Return a row for each range of sizes."""
    title = f"NCCL's {found.operation} of {found.ranks} ranks on {found.nodes} nodes"
    headings = ("from (B)", "to (B)", "fastest", "NCCL's own choice", "less time by up to")
    rows = (
        (
            f"{row.smallest:,}",
            f"{row.largest:,}",
            f"{row.algorithm}/{row.protocol}",
            row.nccl,
            f"{row.gain:.0%}" if row.gain else "",
        )
        for row in found.rows
    )
    return table(title, headings, rows, left=headings[2:4])


def rounds_text(schedule: Schedule) -> Iterator[str]:
    """Yield a line per transfer: ``round 1: 0 -> 1  chunk 0  reduce``; only rounds count from 1."""
    for number, each in enumerate(schedule.each_round(), 1):
        yield from (
            f"round {number}: {row['source']} -> {row['destination']}  {_chunks(row)}  "
            f"{row['action']}"
            for row in transfers(each)
        )


def transfers(of: Round) -> list[dict[str, int | str]]:
    """Return the transfers of a round, by sender.

    ``chunk`` is the first of ``chunks`` that are sent; ``action`` is the receiver's: ``reduce``
    adds them to its own, ``copy`` replaces its own.
    """
    columns = (of.source, of.destination, of.chunk, of.count, of.reduce)
    # ``tolist`` gives Python's integers, because numpy's integers cannot become JSON.
    rows = sorted(zip(*(column.tolist() for column in columns), strict=True))
    return [
        {
            "source": source,
            "destination": destination,
            "chunk": chunk,
            "chunks": chunks,
            "action": "reduce" if is_reduced else "copy",
        }
        for source, destination, chunk, chunks, is_reduced in rows
    ]


def _chunks(row: dict[str, int | str]) -> str:
    first, number = row["chunk"], row["chunks"]
    assert isinstance(first, int)
    assert isinstance(number, int)
    return f"chunk {first}" if number == 1 else f"chunks {first}-{first + number - 1}"


def nccl_tuner_text(found: NcclChoices) -> str:
    """Return the choices as the configuration file of NCCL's example tuner plugin.

    Lines of ``collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks``; the
    first that matches a call applies (NVIDIA/nccl, ext-tuner/example). Raises DpsimError for an
    operation that NCCL does not tune.
    """
    if found.operation not in _COLLECTIVES:
        raise DpsimError(
            f"operation must be one that NCCL's tuner supports ({', '.join(_COLLECTIVES)}), "
            f"but got {found.operation!r}"
        )
    # The plugin reads 255 characters of a line, and treats the rest as the next line.
    nodes = plural(found.nodes, "node")
    lines = [
        f"# {found.operation} of {found.ranks} ranks on {nodes}, as dpsim predicts it",
        "# collective_type,min_bytes,max_bytes,algorithm,protocol,channels,nNodes,nRanks",
    ]
    for row in found.rows:
        lines += [f"# {_why(row)}", _tuner_line(found, row)]
    return "\n".join(lines) + "\n"


def _tuner_line(found: NcclChoices, row: SizeChoice) -> str:
    algorithm = _ALGORITHMS.get(row.algorithm, row.algorithm)
    fields = (
        _COLLECTIVES[found.operation],
        row.smallest,
        row.largest,
        algorithm,
        row.protocol.lower(),
        _NCCLS_OWN,
        found.nodes,
        found.ranks,
    )
    return ",".join(map(str, fields))


def _why(row: SizeChoice) -> str:
    if row.gain == 0:
        return f"{row.nccl}: NCCL's own choice"
    return f"up to {row.gain:.0%} less time than by {row.nccl}, NCCL's own choice"
