"""Collects what the benchmarks measure and prints it as one table at the end, each line against its limit."""

from dataclasses import dataclass

import pytest

_ROWS = pytest.StashKey()


@dataclass(frozen=True)
class Row:
    """One measurement in ``unit``; ``limit`` and ``before``, the same with half the ranks, are in it too, or None."""

    what: str
    value: float
    unit: str
    limit: float | None
    before: float | None


def pytest_configure(config):
    config.stash[_ROWS] = []


@pytest.fixture
def measured(request):
    """Notes one measurement for the table, then asserts that it keeps to its limit."""

    def note(what, value, unit, *, limit=None, before=None):
        request.config.stash[_ROWS].append(Row(what, value, unit, limit, before))
        assert limit is None or value <= limit, f"{what}: must be at most {limit:g} {unit}, but took {value:.4g} {unit}"

    return note


def pytest_terminal_summary(terminalreporter, config):
    rows = config.stash[_ROWS]
    if not rows:
        return
    width = max(len(row.what) for row in rows)
    terminalreporter.section("speed and memory")
    terminalreporter.write_line(f"{'':{width}}  {'measured':>10}  {'limit':>8}  {'of limit':>8}  {'with half the ranks':>19}")
    for row in rows:
        limit, part = ("", "") if row.limit is None else (f"{row.limit:g} {row.unit}", f"{row.value / row.limit:.1%}")
        growth = "" if row.before is None else f"x {row.value / row.before:.2f}"
        value = f"{row.value:.4g} {row.unit}"
        terminalreporter.write_line(f"{row.what:{width}}  {value:>10}  {limit:>8}  {part:>8}  {growth:>19}")
