"""What a run left: each rank's output, exit code and rows, and why a run failed."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from dpsim.base.errors import FailedError

_LAST_LINES = 12
# What torch logs for information, or as a warning.
_LOGGED = re.compile(r"\[[IW]\d{4} \d{2}:\d{2}:\d{2}\.\d+ ")


@dataclass(frozen=True, slots=True)
class RankRun:
    """How one rank of a run ended, and what it said.

    ``returncode`` is as `subprocess` has it: below 0 for a signal; None where the rank still ran
    when the run was ended. ``stdout`` and ``stderr`` are the last 256 KiB of each.
    """

    rank: int
    host: str
    returncode: int | None
    stdout: str
    stderr: str
    rows: tuple[dict[str, Any], ...]

    @property
    def exit_code(self) -> int | None:
        """The code that the rank exited with, or None where a signal ended it or it still ran."""
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

        A library's warnings in its log are not words.
        """
        said = [line for line in self.stderr.strip().splitlines() if not _LOGGED.match(line)]
        lines = said or self.stdout.strip().splitlines() or self.stderr.strip().splitlines()
        return "\n".join(lines[-_LAST_LINES:])

    def to_json(self) -> dict[str, Any]:
        """The rank as plain values; its rows are without the rank's number."""
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

    ``notes`` are what could not be done as asked.
    """

    ranks: tuple[RankRun, ...]
    seconds: float
    notes: tuple[str, ...] = ()

    @property
    def rows(self) -> list[dict[str, Any]]:
        """What all ranks wrote, sorted by rank, then as written."""
        return [row for rank in self.ranks for row in rank.rows]

    def to_json(self) -> dict[str, Any]:
        """The run as plain values."""
        return {
            "seconds": self.seconds,
            "notes": list(self.notes),
            "ranks": [rank.to_json() for rank in self.ranks],
        }


class RunFailed(FailedError):  # noqa: N818 - it says what happened, as KeyboardInterrupt does
    """A run that did not come to its end.

    ``rank`` on ``host`` is why, ``reason`` how; ``run`` is what there was until then.
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
        # One rank's failure makes others fail: the first is named, and these beside it.
        also = ", ".join(map(str, others))
        message = f"rank {rank} on {end.host} {reason}"
        if also:
            message += f" (so did rank {also})"
        said = "".join(f"\n  {line}" for line in self.last_words.splitlines()) or " none"
        if self.signal == "SIGKILL":
            said += "; a system kills so where its memory is full"
        super().__init__(f"{message}; its last words:{said}")

    def to_json(self) -> dict[str, Any]:
        """Which rank and why, as plain values; the run is beside it."""
        return {
            key: getattr(self, key)
            for key in ("rank", "host", "exit_code", "signal", "reason", "last_words")
        }


def how_it_ended(returncode: int) -> str:
    """``"exited with code 3"`` or ``"was killed by SIGSEGV"``."""
    if returncode >= 0:
        return f"exited with code {returncode}"
    return f"was killed by {_signal_name(-returncode)}"


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have numbers alone
        return f"signal {number}"
