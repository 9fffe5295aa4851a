"""Answers in a notebook, as HTML tables and lines."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from html import escape
from typing import Any

from rich.table import Table

from dpsim.base.lazy import Shown
from dpsim.engine import Result
from dpsim.report.pages.document import table_html
from dpsim.report.text.collective import collective_table, nccl_choices_table
from dpsim.report.text.comparison import comparison_table, scaling_table
from dpsim.report.text.explanation import explanation_notes, knobs_table, path_table
from dpsim.report.text.replay import replay_notes, replay_table
from dpsim.report.text.sweep import sweep_table
from dpsim.report.text.tables import run_notes, run_table
from dpsim.report.text.tuning import front_table, tuning_notes, tuning_table
from dpsim.studies.collective import CollectiveTimes
from dpsim.studies.compare import Comparison, Scaling
from dpsim.studies.explain import Explanation
from dpsim.studies.nccl_choices import NcclChoices
from dpsim.studies.replay import Replay
from dpsim.studies.sweep import Sweep
from dpsim.studies.tune import Tuning

_MOST_POINTS = 20  # of a sweep
# The tables and lines that the command prints for each kind of answer.
_PARTS: Mapping[type, Callable[[Any], Iterable[Table | list[str]]]] = {
    Result: lambda answer: (run_table(answer), run_notes(answer)),
    Comparison: lambda answer: (comparison_table(answer), answer.notes),
    Scaling: lambda answer: (scaling_table(answer), answer.notes),
    CollectiveTimes: lambda answer: (collective_table(answer.rows),),
    NcclChoices: lambda answer: (nccl_choices_table(answer),),
    Sweep: lambda answer: (sweep_table(answer.query(), _MOST_POINTS),),
    Tuning: lambda answer: (tuning_table(answer), front_table(answer), tuning_notes(answer)),
    Explanation: lambda answer: (
        path_table(answer.path, answer.base.name),
        knobs_table(answer),
        explanation_notes(answer),
    ),
    Replay: lambda answer: (replay_table(answer), replay_notes(answer)),
}


def html_of(answer: Shown) -> str:
    """Return a command's output for an answer, as HTML."""
    return "\n".join(_html(part) for part in _PARTS[type(answer)](answer) if part)


def _html(part: Table | list[str]) -> str:
    if isinstance(part, list):
        lines = "\n".join(part)
        return f"<pre>{escape(lines)}</pre>"
    headings = (str(column.header) for column in part.columns)
    cells = zip(*(map(str, column.cells) for column in part.columns), strict=True)
    return table_html(headings, cells, str(part.title or ""))
