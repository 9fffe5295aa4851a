"""The file of a node's measurements: each row is written at once, so that none is lost.

A line is a JSON object. ``world`` describes the ranks of the lines that follow; ``begin`` and
``end`` enclose an item; ``of`` names the item of a row; ``note`` describes a disturbance. An item
without an end was interrupted. The same item may occur several times.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from dpsim.base.errors import DpsimError

_DIGITS = 6  # of a measured number: the resolution of a clock


@dataclass(slots=True, eq=False)
class Attempt:
    """One attempt to measure an item.

    ``ended`` is "done", "failed", "cut", or "" if it was interrupted, and ``why`` gives details.
    """

    name: str
    item: dict[str, Any]
    world: dict[str, Any]
    rows: list[dict[str, Any]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ended: str = ""
    why: str = ""


def usual_s(times_s: Sequence[float]) -> float:
    """Return the mean of ``times_s`` without its slowest tenth.

    A step adds up its collectives, and means add up where medians do not. Gloo's have two usual
    times where a rank has one core: its polling thread sometimes keeps the thread that posts the
    next receive from running, for 3 to 4 ms.
    """
    return float(np.mean(np.sort(times_s)[: math.ceil(0.9 * len(times_s))]))


class Rows:
    """The file at ``path``, to which several processes append.

    ``world`` describes the current ranks, and ``met`` is when that was read, on the monotonic
    clock.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.attempts: list[Attempt] = []
        self.world: dict[str, Any] = {}
        self.met = 0.0
        self._read = 0
        self._began = 0.0

    def write(self, line: Mapping[str, Any]) -> None:
        """Append ``line`` at once."""
        with self.path.open("ab", buffering=0) as file:
            # In one system call: whole, or cut off if the disk is full. An earlier line that was
            # cut off is ended first.
            file.write(_newline(self.path) + json.dumps(short(line)).encode() + b"\n")

    def refresh(self) -> None:
        """Read new lines. Raises DpsimError for a file of something else."""
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._read)
            *lines, rest = file.read().split(b"\n")
            self._read = file.tell() - len(rest)
        for line in lines:
            if line:
                self._take(line)

    @property
    def current(self) -> Attempt | None:
        """The item in progress, None between two of them."""
        last = self.attempts[-1] if self.attempts else None
        return last if last is not None and not last.ended and self._began else None

    @property
    def current_s(self) -> float:
        """The seconds since the current item began."""
        return time.monotonic() - self._began

    def settle(self) -> None:
        """Mark the current item as interrupted, before this process or in it."""
        self._began = 0.0

    def best(self, name: str, item: Mapping[str, Any]) -> Attempt | None:
        """Return the complete attempt at this item, or else that with most rows; None if none."""
        mine = [each for each in self.attempts if each.name == name and each.item == item]
        return max(mine, key=lambda each: (each.ended == "done", len(each.rows)), default=None)

    def cut_off(self, attempt: Attempt) -> int:
        """Return how often an earlier attempt at the same item was cut off."""
        alike = (attempt.name, attempt.item)
        return sum(
            (each.name, each.item) == alike and each.ended == "cut" for each in self.attempts
        )

    def _take(self, line: bytes) -> None:
        try:
            record = json.loads(line)
        except ValueError:
            return  # cut off in the middle
        if not isinstance(record, dict):
            raise DpsimError(f"{self.path}: must be the rows of a node, but has {line[:40]!r}")
        last = self.attempts[-1] if self.attempts else None
        if "world" in record:
            self.world = record["world"]
            self.met = time.monotonic()
        elif "begin" in record:
            self.attempts.append(Attempt(record["begin"], record["item"], self.world))
            self._began = time.monotonic()
        elif last is None:
            return
        elif "of" in record:
            last.rows.append({key: value for key, value in record.items() if key != "of"})
        elif "note" in record:
            last.notes.append(record["note"])
        elif "end" in record:
            for ended in ("failed", "cut"):
                if ended in record:
                    last.ended, last.why = ended, record[ended]
            last.ended = last.ended or "done"


def _newline(path: Path) -> bytes:
    if not path.exists() or not path.stat().st_size:
        return b""
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return b"" if file.read() == b"\n" else b"\n"


def short(value: Any) -> Any:
    """Return the value with no more digits than were measured."""
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}")
    if isinstance(value, dict):
        return {key: short(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [short(inner) for inner in value]
    return value
