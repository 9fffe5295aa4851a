"""Goodput over weeks for a terminal: interruptions by cause, and shares of the time."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table

from dpsim.base.terminal import table
from dpsim.base.units import TIME, human
from dpsim.studies.goodput import GoodputStudy

_DAY = 86_400.0
_LEAST_EXCESS = 0.02  # share of time by which a finite job's useful time must be above a long run's
_LEAST_WAITING = 0.05  # share of time that waiting for spares must take to be mentioned


def causes_table(name: str, study: GoodputStudy) -> Table:
    """Return a table of interruptions by cause."""
    title = f"{name}: {study.seconds / _DAY:g} days of {study.workers:,} workers"
    headings = ("cause", "interruptions", "95 % of runs", "work lost", "downtime")
    rows = (
        (
            row.cause,
            f"{row.mean:.1f}",
            f"{row.low:.0f} to {row.high:.0f}",
            f"{row.lost:.2%}",
            f"{row.down:.2%}",
        )
        for row in study.causes
    )
    return table(title, headings, rows, left=("cause",))


def goodput_notes(study: GoodputStudy) -> list[str]:
    """Return the shares of time, the interruptions and the checkpoint intervals, a line each."""
    parts = ", ".join(f"{name} {share:.1%}" for name, share in study.shares.items())
    intervals = (study.best, study.daly, study.young)
    best, daly, young = (human(each, TIME, 3) for each in intervals)
    useful = study.expected.useful
    long_run = f"long run    {useful:.1%} of the time by the closed form"
    # The closed form describes an endless job.
    if study.shares["useful"] - useful >= _LEAST_EXCESS:
        long_run += f"; a job of {human(study.seconds, TIME)} begins with nothing in repair"
    return [
        f"useful      {study.shares['useful']:.1%} of the time; 95 % of {study.runs} runs from "
        f"{study.low:.1%} to {study.high:.1%}",
        long_run,
        f"shares      {parts}",
        f"stops       {study.interruptions:.1f} interruptions; "
        f"a crash every {human(study.expected.mtbf, TIME, 3)} of running",
        f"checkpoint  every {human(study.plan.interval, TIME, 3)} of work; best of those tried "
        f"{best} (Daly {daly}, Young {young})",
    ]


def spares_note(study: GoodputStudy, *, spares: int, elastic: bool) -> list[str]:
    """Return a hint for a job that waits noticeably for repairs; no line otherwise."""
    if study.shares["waiting"] < _LEAST_WAITING:
        return []
    other = "" if elastic else ", or elastic: true, which continues without them"
    return [f"to try      more spares than {spares:,} (disturbance.crashes.spares){other}"]


def assumed_note(assumed: Mapping[str, float]) -> list[str]:
    """Return the values assumed for fields that the scenario omits; no line without any."""
    if not assumed:
        return []
    of = {"mtbf": "mtbf of each worker"}  # not of the job, which fails as often as all together
    taken = ", ".join(f"{of.get(each, each)} {human(assumed[each], TIME)}" for each in assumed)
    return [f"assumed     {taken} (fields of disturbance.crashes)"]
