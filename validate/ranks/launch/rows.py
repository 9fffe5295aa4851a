"""The rows that a rank records: one JSON object per line.

Each is written at once, so that a crash loses no earlier measurement.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpsim.base.errors import DpsimError

FOLDER = "DPSIM_RECORDS"  # the environment variable that names the folder


def write_row(row: Mapping[str, Any]) -> None:
    """Append ``row`` to this rank's file.

    Raises DpsimError in a process that `launch` did not start.
    """
    folder = os.environ.get(FOLDER)
    if folder is None:
        raise DpsimError(
            f"a row must have a folder to go to, but {FOLDER} is not set, as in processes that "
            "launch() started"
        )
    with rows_file(Path(folder), int(os.environ["RANK"])).open("ab", buffering=0) as file:
        file.write(json.dumps(row).encode() + b"\n")  # in one system call: whole or not at all


def connected() -> None:
    """Record that this rank has reached the others.

    Does nothing in a process that `launch` did not start.
    """
    if FOLDER in os.environ:
        connected_file(Path(os.environ[FOLDER]), int(os.environ["RANK"])).touch()


def rows_file(folder: Path, rank: int) -> Path:
    """Return the file of one rank's rows."""
    return folder / f"rank-{rank}.jsonl"


def connected_file(folder: Path, rank: int) -> Path:
    """Return the file that exists once a rank has connected."""
    return folder / f"rank-{rank}.connected"


def read_rows(folder: Path, rank: int) -> tuple[dict[str, Any], ...]:
    """Return the rows that a rank has written, each with its rank.

    An incomplete last line is left out.
    """
    file = rows_file(folder, rank)
    lines = file.read_bytes().split(b"\n")[:-1] if file.exists() else []
    return tuple({"rank": rank, **json.loads(line)} for line in lines)
