"""The error of a prediction, for a terminal."""

from __future__ import annotations

from rich.table import Table

from dpsim.base.units import TIME, human
from dpsim.report.text.model_error import WITHIN, trust_notes, within
from dpsim.studies.explain import Trust


def sources_table(found: Trust) -> Table:
    """Return the sources of error: the interval of each alone, and its share of the variance."""
    interval = found.interval
    step = human(found.step_time_s, TIME, 3)
    title = f"{found.name}: {step}, {WITHIN} {within(interval.low, interval.high)}"
    table = Table(
        title=f"{title} (high over low {interval.width:.2f})", title_justify="left", show_edge=False
    )
    table.add_column("source of error")
    for heading in ("alone", "high over low", "share of variance"):
        table.add_column(heading, justify="right")
    shares = {each.name: each.total for each in found.uncertainty.inputs}
    for name, low, high in interval.sources:
        share = shares.get(name)
        shown = "" if share is None else f"{share:.0%}"
        table.add_row(name, within(low, high), f"{high / low:.2f}", shown)
    return table


def basis_notes(found: Trust) -> list[str]:
    """Return the basis of the interval, the nearest measurements, and what is extrapolated."""
    return [f"basis       {found.interval.basis}", *trust_notes(found.interval)]


def measures_table(found: Trust) -> Table:
    """Return possible measurements, and the interval after each."""
    table = Table(title="what to measure to narrow it", title_justify="left", show_edge=False)
    for heading in ("measure", WITHIN, "high over low", "how"):
        table.add_column(heading, justify="left" if heading in ("measure", "how") else "right")
    for each in found.measures:
        low, high = each.interval.low, each.interval.high
        change = f"{found.interval.width:.2f} -> {each.interval.width:.2f}"
        table.add_row(each.what, within(low, high), change, each.how)
    return table
