"""The error of a prediction, for a terminal."""

from __future__ import annotations

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import TIME, human
from dpsim.report.text.model_error import WITHIN, trust_notes, within
from dpsim.studies.explain import Trust


def sources_table(found: Trust) -> Table:
    """Return the sources of error: the interval of each alone, and its share of the variance."""
    interval = found.interval
    step = human(found.step_time_s, TIME, 3)
    title = f"{found.name}: {step}, {WITHIN} {within(interval.low, interval.high)}"
    shares = {each.name: each.total for each in found.uncertainty.inputs}
    rows = []
    for name, low, high in interval.sources:
        share = shares.get(name)
        shown = "" if share is None else f"{share:.0%}"
        rows.append((name, within(low, high), f"{high / low:.2f}", shown))
    headings = ("source of error", "alone", "high over low", "share of variance")
    return table(f"{title} (high over low {interval.width:.2f})", headings, rows, headings[:1])


def basis_notes(found: Trust) -> list[str]:
    """Return the basis of the interval, the nearest measurements, and what is extrapolated."""
    return [f"basis       {found.interval.basis}", *trust_notes(found.interval)]


def measures_table(found: Trust) -> Table:
    """Return possible measurements, and the interval after each."""
    rows = []
    for each in found.measures:
        low, high = each.interval.low, each.interval.high
        change = f"{found.interval.width:.2f} -> {each.interval.width:.2f}"
        rows.append((each.what, within(low, high), change, each.how))
    headings = ("measure", WITHIN, "high over low", "how")
    return table("what to measure to narrow it", headings, rows, left=("measure", "how"))
