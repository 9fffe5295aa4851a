"""Collects what the benchmarks measure and prints it as one table at the end, each line against its
limits.
"""

import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from measuring import Growth, slowness

_ROWS = pytest.StashKey()
_HEADINGS = ("what", "scale", "time", "limit", "memory", "limit", "each doubling", "exponent")


@dataclass(frozen=True)
class Row:
    """One measurement.

    ``time`` in ``unit`` and ``memory`` in MB, the most that they may be, and how time grew with the
    scale.
    """

    what: str
    scale: str
    time: float
    unit: str
    limit: float | None
    memory: float | None
    memory_limit: float | None
    growth: Growth | None

    def cells(self):
        """What the table says of it."""
        growth = (
            ("", "") if self.growth is None else (str(self.growth), f"{self.growth.exponent:.2f}")
        )
        return (
            self.what,
            self.scale,
            f"{self.time:.3g} {self.unit}",
            "" if self.limit is None else f"{self.limit:.3g} {self.unit}",
            "" if self.memory is None else f"{self.memory:.0f} MB",
            "" if self.memory_limit is None else f"{self.memory_limit:.0f} MB",
            *growth,
        )


def pytest_configure(config):
    config.stash[_ROWS] = []


@pytest.fixture
def measured(request):
    """Notes one measurement for the table, then asserts that it keeps to its limits.

    Limits of time are those of the machine where they were set, times this one's slowness.
    """

    def note(
        what, scale, time, *, unit="s", limit=None, memory=None, memory_limit=None, growth=None
    ):
        if limit is not None and unit in {"s", "us"}:
            limit *= slowness()
        row = Row(what, scale, time, unit, limit, memory, memory_limit, growth)
        request.config.stash[_ROWS].append(row)
        assert limit is None or time <= limit, (
            f"{what}: must take at most {limit:g} {unit}, but took {time:.4g} {unit}"
        )
        assert memory_limit is None or memory <= memory_limit, (
            f"{what}: must be at most {memory_limit:g} MB, but was {memory:.0f} MB"
        )

    return note


def pytest_terminal_summary(terminalreporter, config):
    rows = [row.cells() for row in config.stash[_ROWS]]
    if not rows:
        return
    terminalreporter.section(
        f"speed and memory on {machine()}, {slowness():.2f} times as slow as where limits were set"
    )
    widths = [max(map(len, column)) for column in zip(_HEADINGS, *rows, strict=True)]
    for cells in (_HEADINGS, ["-" * width for width in widths], *rows):
        terminalreporter.write_line(
            "| "
            + " | ".join(f"{cell:{width}}" for cell, width in zip(cells, widths, strict=True))
            + " |"
        )


def machine():
    """Its processors and its memory."""
    about = (
        Path("/proc/cpuinfo").read_text(encoding="utf-8") if Path("/proc/cpuinfo").exists() else ""
    )
    model = next(
        (
            line.partition(":")[2].strip()
            for line in about.splitlines()
            if line.startswith("model name")
        ),
        "processors",
    )
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9
    return f"{os.cpu_count()} cores ({model}), {memory:.0f} GB"
