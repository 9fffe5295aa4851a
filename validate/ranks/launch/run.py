"""The result of a run: each rank's rows, output and exit code, and why a run failed.

Rows are one JSON object per line, each written at once, so that a crash loses no earlier one.
"""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from dpsim.base.errors import DpsimError, FailedError

FOLDER = "DPSIM_RECORDS"  # the environment variable that names the folder
_LAST_LINES = 12
# Lines that torch logs as information or warnings.
_LOGGED = re.compile(r"\[[IW]\d{4} \d{2}:\d{2}:\d{2}\.\d+ ")


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


def report_connected() -> None:
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


@dataclass(frozen=True, slots=True)
class RankRun:
    """How one rank of a run ended, and its output.

    ``returncode`` is as in `subprocess`: below 0 for a signal; None if the rank still ran when the
    run was ended. ``stdout`` and ``stderr`` are the last 256 KiB of each.
    """

    rank: int
    host: str
    returncode: int | None
    stdout: str
    stderr: str
    rows: tuple[dict[str, Any], ...]

    @property
    def exit_code(self) -> int | None:
        """The code that the rank exited with, or None if a signal ended it or it still ran."""
        if self.returncode is None or self.returncode < 0:
            return None
        return self.returncode

    @property
    def signal(self) -> str | None:
        """The name of the signal that killed the rank, such as SIGSEGV, or None."""
        if self.returncode is None or self.returncode >= 0:
            return None
        return _signal_name(-self.returncode)

    @property
    def last_words(self) -> str:
        """The last lines that the rank printed on stderr, or else on stdout.

        Warnings logged by a library are skipped.
        """
        lines = [line for line in self.stderr.strip().splitlines() if not _LOGGED.match(line)]
        lines = lines or self.stdout.strip().splitlines() or self.stderr.strip().splitlines()
        return "\n".join(lines[-_LAST_LINES:])

    def to_json(self) -> dict[str, Any]:
        """Return the rank as plain values; its rows are without the rank's number."""
        rows = [{key: value for key, value in row.items() if key != "rank"} for row in self.rows]
        ended = {
            "rank": self.rank,
            "host": self.host,
            "exit_code": self.exit_code,
            "signal": self.signal,
        }
        return {**ended, "stdout": self.stdout, "stderr": self.stderr, "records": rows}


@dataclass(frozen=True, slots=True)
class Run:
    """A run that has ended: its ranks in order, and how long it took.

    ``notes`` list deviations from the request.
    """

    ranks: tuple[RankRun, ...]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The rows of all ranks, sorted by rank, then as written."""
        return [row for rank in self.ranks for row in rank.rows]

    def to_json(self) -> dict[str, Any]:
        """Return the run as plain values."""
        return {
            "seconds": self.seconds,
            "notes": list(self.notes),
            "ranks": [rank.to_json() for rank in self.ranks],
        }


class RunFailed(FailedError):  # noqa: N818 - it says what happened, as KeyboardInterrupt does
    """A run that failed.

    ``rank`` on ``host`` caused it, ``reason`` says how; ``run`` is the run until then.
    """

    def __init__(self, rank: int, reason: str, run: Run, others: Iterable[int] = ()) -> None:
        self.run = run
        self.rank = rank
        self.reason = reason
        end = run.ranks[rank]
        self.host = end.host
        self.exit_code = end.exit_code
        self.signal = end.signal
        self.last_words = end.last_words
        # A rank's failure makes other ranks fail, so name the first and add the other ones.
        also = ", ".join(map(str, others))
        message = f"rank {rank} on {end.host} {reason}"
        if also:
            message += f" (so did rank {also})"
        lines = "".join(f"\n  {line}" for line in self.last_words.splitlines()) or " none"
        if self.signal == "SIGKILL":
            lines += "; a system kills so where its memory is full"
        super().__init__(f"{message}; its last words:{lines}")

    def to_json(self) -> dict[str, Any]:
        """Return rank and reason as plain values, without the run."""
        return {
            key: getattr(self, key)
            for key in ("rank", "host", "exit_code", "signal", "reason", "last_words")
        }


def how_it_ended(returncode: int) -> str:
    """Return ``"exited with code 3"`` or ``"was killed by SIGSEGV"``."""
    if returncode >= 0:
        return f"exited with code {returncode}"
    return f"was killed by {_signal_name(-returncode)}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals only have numbers
        return f"signal {number}"
