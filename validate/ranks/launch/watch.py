"""Watches the ranks of a run until all have ended well, or one fails."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from validate.ranks.launch.forked import Process
from validate.ranks.launch.output import Output
from validate.ranks.launch.rows import connected_file, rows_file
from validate.ranks.launch.run import how_it_ended

_LOOK_EVERY_S = 0.1  # output, and with it nearly every rank's end, is noticed at once


@dataclass(frozen=True, slots=True)
class Trouble:
    """The rank for which a run is ended, the reason, and other ranks with the same reason."""

    rank: int
    reason: str
    others: tuple[int, ...] = ()


@dataclass
class Watch:
    """Watches running ranks: their ends, their output, and their last sign of life.

    All must have connected and finished so many seconds after ``began``, on the monotonic clock.
    """

    processes: Sequence[Process]
    output: Output
    folder: Path
    look: Callable[[], object]
    began: float
    timeout_s: float
    connect_timeout_s: float | None

    def __post_init__(self) -> None:
        # The wall clock, like the modification times of the ranks' files.
        self._spoke = dict.fromkeys(range(len(self.processes)), time.time())
        self._unconnected = set(range(len(self.processes)))

    def wait(self) -> Trouble | None:
        """Read output until every rank has exited with code 0.

        Returns the trouble as soon as there is any.
        """
        while True:
            for rank in self.output.read(_LOOK_EVERY_S):
                self._spoke[rank] = time.time()
            self.look()
            codes = [process.poll() for process in self.processes]
            trouble = self._failed(codes) or self._late(codes)
            if trouble or all(code == 0 for code in codes):
                return trouble

    def _failed(self, codes: list[int | None]) -> Trouble | None:
        """Return the failure of ranks since the last check.

        A killed rank comes before those that gave up because it was gone, whose codes are the
        highest.
        """
        failed = [(code, rank) for rank, code in enumerate(codes) if code]
        if not failed:
            return None
        killed_first = sorted(failed, key=lambda found: max(found[0], 0))
        code, rank = killed_first[0]
        others = tuple(other for same, other in killed_first[1:] if same == code)
        seconds = time.monotonic() - self.began
        return Trouble(rank, f"{how_it_ended(code)} after {seconds:.1f} s", others)

    def _late(self, codes: list[int | None]) -> Trouble | None:
        """Return the rank silent for longest of those that are late to connect or to finish."""
        seconds = time.monotonic() - self.began
        if self.connect_timeout_s is not None:
            unconnected = self._still_unconnected()
            if seconds > self.connect_timeout_s and unconnected:
                reason = f"had not connected after {self.connect_timeout_s:g} s"
                return self._longest_silent(unconnected, reason, seconds)
        running = {rank for rank, code in enumerate(codes) if code is None}
        if seconds > self.timeout_s and running:
            reason = f"had not finished after {self.timeout_s:g} s"
            return self._longest_silent(running, reason, seconds)
        return None

    def _still_unconnected(self) -> set[int]:
        """Return the ranks that have not reported that they reached the others."""
        connected = {
            rank for rank in self._unconnected if connected_file(self.folder, rank).exists()
        }
        self._unconnected -= connected
        return self._unconnected

    def _longest_silent(self, ranks: set[int], reason: str, most: float) -> Trouble:
        signs = {rank: max(self._spoke[rank], self._wrote(rank)) for rank in ranks}
        first, *others = sorted(ranks, key=lambda rank: (signs[rank], rank))
        # The wall clock may have been changed meanwhile.
        silent = min(max(time.time() - signs[first], 0.0), most)
        return Trouble(first, f"{reason}, silent for {silent:.1f} s", tuple(sorted(others)))

    def _wrote(self, rank: int) -> float:
        """Return when a rank last wrote a row, in seconds of the wall clock; 0 for never."""
        file = rows_file(self.folder, rank)
        return file.stat().st_mtime if file.exists() else 0.0
