"""Answers in a notebook: as HTML tables, and as rows of a data frame."""

from __future__ import annotations

from collections.abc import Iterable
from functools import singledispatch
from html import escape
from typing import Any

from rich.table import Table

from dpsim.engine import Result
from dpsim.report.pages.document import table_html
from dpsim.report.text.batch_study import batch_study_notes, batch_study_table
from dpsim.report.text.collective import collective_table
from dpsim.report.text.explanation import explanation_notes, knobs_table, path_table
from dpsim.report.text.replay import replay_notes, replay_table
from dpsim.report.text.sweep import sweep_table
from dpsim.report.text.tables import (
    comparison_table,
    run_notes,
    run_table,
    scaling_table,
)
from dpsim.report.text.tuning import front_table, tuning_notes, tuning_table
from dpsim.studies.collective import CollectiveTimes
from dpsim.studies.compare import Comparison, Scaling
from dpsim.studies.explain import Explanation
from dpsim.studies.replay import Replay
from dpsim.studies.scale import BatchStudy
from dpsim.studies.sweep import Sweep
from dpsim.studies.tune import Tuning

Parts = Iterable[Table | str]
_MOST_POINTS = 20  # of a sweep


def html_of(answer: Any) -> str:
    """Return a command's output for an answer, as HTML."""
    return "\n".join(_html(part) for part in parts(answer) if part)


@singledispatch
def parts(answer: Any) -> Parts:
    """Return the tables and lines that a command prints for an answer."""
    # A mistake in a program, not of a user, hence no DpsimError.
    raise TypeError(f"must be an answer of dpsim, but got {type(answer).__name__}")


@parts.register
def _(answer: Result) -> Parts:
    return run_table(answer), "\n".join(run_notes(answer))


@parts.register
def _(answer: Comparison) -> Parts:
    return (comparison_table(answer),)


@parts.register
def _(answer: Scaling) -> Parts:
    return (scaling_table(answer),)


@parts.register
def _(answer: BatchStudy) -> Parts:
    return batch_study_table(answer), "\n".join(batch_study_notes(answer))


@parts.register
def _(answer: CollectiveTimes) -> Parts:
    return (collective_table(answer.rows),)


@parts.register
def _(answer: Sweep) -> Parts:
    return (sweep_table(answer.query(), _MOST_POINTS),)


@parts.register
def _(answer: Tuning) -> Parts:
    return tuning_table(answer), front_table(answer), "\n".join(tuning_notes(answer))


@parts.register
def _(answer: Explanation) -> Parts:
    path = path_table(answer.path, answer.base.name)
    return path, knobs_table(answer), "\n".join(explanation_notes(answer))


@parts.register
def _(answer: Replay) -> Parts:
    return replay_table(answer), "\n".join(replay_notes(answer))


def _html(part: Table | str) -> str:
    if isinstance(part, str):
        return f"<pre>{escape(part)}</pre>"
    headings = (str(column.header) for column in part.columns)
    cells = zip(*(map(str, column.cells) for column in part.columns), strict=True)
    return table_html(headings, cells, str(part.title or ""))
