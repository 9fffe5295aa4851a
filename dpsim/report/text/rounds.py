"""A schedule as text, round by round, for reading along in a lecture."""

from __future__ import annotations

from collections.abc import Iterator

from dpsim.collectives import Round, Schedule


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
    # Converted to lists, since Python's integers can be printed and become JSON, but numpy's
    # cannot.
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
