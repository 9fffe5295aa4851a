"""Goodput over weeks for a terminal: interruptions by cause, and where the time went."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from dpsim.base.units import TIME, human
from dpsim.studies.goodput import GoodputStudy

_DAY = 86_400.0
_FAR = 0.02  # of the time: a shorter job that has so much more of it is worth a word
_MUCH = 0.05  # of the time: waiting for spares from here on is worth a word


def causes_table(name: str, study: GoodputStudy) -> Table:
    """Interruptions by cause."""
    title = f"{name}: {study.seconds / _DAY:g} days of {study.workers:,} workers"
    table = Table(title=title, title_justify="left", show_edge=False)
    table.add_column("cause")
    for heading in ("interruptions", "95 % of runs", "work lost", "standing still"):
        table.add_column(heading, justify="right")
    for row in study.causes:
        counts = (f"{row.mean:.1f}", f"{row.low:.0f} to {row.high:.0f}")
        table.add_row(row.cause, *counts, f"{row.lost:.2%}", f"{row.down:.2%}")
    return table


def goodput_notes(study: GoodputStudy) -> list[str]:
    """The useful share, where the rest went, and how often to write a checkpoint; a line each."""
    parts = ", ".join(f"{name} {share:.1%}" for name, share in study.shares.items())
    intervals = (study.best, study.daly, study.young)
    best, daly, young = (human(each, TIME, 3) for each in intervals)
    return [
        f"useful      {study.shares['useful']:.1%} of the time; 95 % of {study.runs} runs from "
        f"{study.low:.1%} to {study.high:.1%}",
        _long_run_note(study),
        f"shares      {parts}",
        f"stops       {study.interruptions:.1f} interruptions; "
        f"a crash every {human(study.expected.mtbf, TIME, 3)} of running",
        f"checkpoint  every {human(study.plan.interval, TIME, 3)} of work; best of those tried "
        f"{best} (Daly {daly}, Young {young})",
    ]


def _long_run_note(study: GoodputStudy) -> str:
    """What the closed form says of a job without end, and why that differs where it does."""
    useful = study.expected.useful
    told = f"long run    {useful:.1%} of the time by the closed form"
    if study.shares["useful"] - useful < _FAR:
        return told
    return f"{told}; a job of {human(study.seconds, TIME)} begins with nothing in repair"


def spares_note(study: GoodputStudy, *, spares: int, elastic: bool) -> list[str]:
    """What helps where a job mostly waits for what is in repair; no line where it does not."""
    if study.shares["waiting"] < _MUCH:
        return []
    other = "" if elastic else ", or elastic: true, which goes on without"
    return [f"to try      more spares than {spares:,} (disturbance.crashes.spares){other}"]


def assumed_note(assumed: Mapping[str, float]) -> list[str]:
    """What was left out in the scenario, with what was taken instead; no line where nothing was."""
    if not assumed:
        return []
    taken = ", ".join(f"{field} {human(seconds, TIME)}" for field, seconds in assumed.items())
    return [f"assumed     {taken} (fields of disturbance.crashes)"]
