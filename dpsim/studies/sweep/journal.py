"""What a worker writes down while it works.

A journal of JSON lines, in which a kill at any moment costs the last line at most.

A Parquet file has its table of contents at its end and can be read only once it is closed: a worker
that is killed would take all its rows along. Lines are appended by one write each, without a
buffer: what has been written survives the process.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

Row: TypeAlias = dict[str, Any]

BEGUN, DONE = "begun", "done"


def worker_name() -> str:
    """Who works here: host, process and thread; text for a file's name."""
    return f"{socket.gethostname()}-{os.getpid()}-{threading.get_native_id()}"


def write(journals: Path, worker: str, event: str, row: Row) -> None:
    """Append one event about the row's scenario to the worker's journal."""
    text = json.dumps({"event": event, **row}, allow_nan=False, separators=(",", ":"))
    line = f"{text}\n".encode()
    handle = os.open(journals / f"{worker}.jsonl", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o666)
    try:
        # A disk that fills up takes part of a line without an error.
        if os.write(handle, line) < len(line):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    finally:
        os.close(handle)


def rows(journal: Path) -> Iterator[Row]:
    """The rows that are done in a journal."""
    return (
        {key: value for key, value in each.items() if key != "event"}
        for each in _events(journal)
        if each["event"] == DONE
    )


def in_flight(journals: Iterable[Path]) -> set[str]:
    """Keys of the scenarios that were begun in one of the journals and done in none."""
    events = [event for journal in journals for event in _events(journal)]
    done = {event["key"] for event in events if event["event"] == DONE}
    return {event["key"] for event in events if event["event"] == BEGUN} - done


def _events(journal: Path) -> Iterator[Row]:
    """Whole lines only.

    The last one, or one that a full disk cut short, is a scenario that was not done.
    """
    *whole, _ = journal.read_bytes().split(b"\n")
    for line in whole:
        try:
            yield json.loads(line)
        except ValueError:
            continue
