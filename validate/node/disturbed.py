"""Disturbances of a measurement: other programs, and reduced clocks.

Measured seconds alone do not reveal them, so the system is queried.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpsim.base.units import DATA, human
from validate.microbench.machine import machine
from validate.node.rows import Rows
from validate.ranks.smi import GpuProcess, GpuState, gpu_processes, gpu_states

_STAT = Path("/proc/stat")
_WINDOW_S = 1.0
_EVERY_S = 10.0  # querying a driver takes a tenth of a second of it
_BUSY_SHARE = 0.25  # of the cores
_SLOW_CLOCK_SHARE = 0.9  # of the highest clock, under load


def busy_cores() -> float | None:
    """Return the mean number of busy cores over a second from now; None if unknown.

    Time taken by a hypervisor counts as busy.
    """
    if not _STAT.exists():
        return None
    before = _busy_s()
    begin = time.monotonic()
    time.sleep(_WINDOW_S)
    return max(_busy_s() - before, 0.0) / (time.monotonic() - begin)


def _busy_s() -> float:
    """Return the non-idle seconds of all cores since the machine started."""
    # user, nice, system, idle, iowait, irq, softirq, steal: see proc(5).
    ticks = [int(word) for word in _STAT.read_text().split("\n", 1)[0].split()[1:9]]
    idle = ticks[3] + ticks[4]
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK")


def too_busy(busy: float | None) -> Iterator[str]:
    """Yield a sentence if other programs use the machine too much, before measurements."""
    cores = machine()["cores"] or 1
    if busy is not None and busy > _BUSY_SHARE * cores:
        yield (
            f"other programs keep {busy:.1f} of {cores} cores busy: too much to measure seconds on "
            "processors, and on GPUs their hosts are late"
        )


def reduced_clocks(states: Sequence[GpuState]) -> Iterator[str]:
    """Yield a sentence about each GPU whose clock is reduced."""
    for index, state in enumerate(states):
        if state.slowed_by and state.clock < _SLOW_CLOCK_SHARE * state.max_clock:
            yield (
                f"GPU {index} ({state.name}) runs at {state.clock / 1e6:.0f} of "
                f"{state.max_clock / 1e6:.0f} MHz because of {' and '.join(state.slowed_by)}: what "
                "is measured now is slower than it could be"
            )


def used_by(others: Sequence[GpuProcess], states: Sequence[GpuState]) -> Iterator[str]:
    """Yield a sentence about each of the ``others`` that use GPUs."""
    index_of = {state.uuid: index for index, state in enumerate(states)}
    for each in others:
        if each.uuid in index_of:
            yield (
                f"GPU {index_of[each.uuid]} is used by process {each.pid} ({each.name}), which "
                f"holds {human(each.held, DATA, 3)} there: its memory is missing, and its work "
                "slows others down"
            )


class Watchman:
    """Records disturbances of the current item, once for each item."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._first = [*too_busy(busy_cores())] if device == "cpu" else []
        # The processes that were there before any rank.
        others = gpu_processes() if device == "cuda" else []
        self._others = {each.pid for each in others}
        self._next = 0.0
        self._reported: set[tuple[str, str]] = set()

    def look(self, rows: Rows) -> None:
        """Check for disturbances if it is time to."""
        if rows.current is None or time.monotonic() < self._next:
            return
        self._next = time.monotonic() + _EVERY_S
        for note in (*self._first, *self._gpu_disturbances()):
            # The numbers differ between checks.
            which = rows.current.name, note.partition(" runs at ")[0]
            if which not in self._reported:
                self._reported.add(which)
                rows.write({"note": note})
        self._first = []

    def _gpu_disturbances(self) -> Iterator[str]:
        if self._device != "cuda":
            return
        states = gpu_states()
        yield from reduced_clocks(states)
        yield from used_by([p for p in gpu_processes() if p.pid in self._others], states)
