"""The main figure of an answer, by the command that printed it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import plotly.graph_objects as go

from dpsim.report.figures.calibration_figure import calibration_figure
from dpsim.report.figures.columns_figure import columns_figure
from dpsim.report.figures.front_figure import front_figure
from dpsim.report.figures.replay_figure import replay_figure
from dpsim.report.pages.page import chief_figure, source_figures
from dpsim.report.pages.result_files import read_results, results_in
from dpsim.studies.sweep import Pareto, Sweep
from dpsim.studies.tune import Tuning


def answer_figure(content: Mapping[str, Any], name: str) -> go.Figure:
    """Return the figure of a command's output with ``--json``; ``name`` is its origin.

    For several numbers of nodes it is throughput, otherwise the parts of a step. Raises DpsimError
    for other content.
    """
    for kind, figure in _NO_TABLES.items():
        if content.get("kind") == kind:
            return figure(content)
    return chief_figure(results_in(content, name))


def figure_of(answer: Any) -> go.Figure:
    """Return the figure of an answer, of its JSON, or of a sweep's folder.

    For a sweep it shows the parts of a step of its fastest points, for a search its front.
    """
    if isinstance(answer, Pareto):
        rows = [dict(zip(answer.all.columns, row, strict=True)) for row in answer.all.rows]
        return columns_figure(rows, answer.first, answer.second, aims=("least", "least"))
    if isinstance(answer, Sweep | Path):
        folder = answer.folder if isinstance(answer, Sweep) else answer
        # ``next`` makes only the first figure, because the generator is not continued.
        return next(source_figures(read_results(folder)))
    if isinstance(answer, Tuning):
        return front_figure(answer)
    return answer_figure(answer if isinstance(answer, Mapping) else answer.to_json(), "the answer")


# By kind of answer, the figures of the kinds that `results_in` does not read.
_NO_TABLES: Mapping[str, Callable[[Mapping[str, Any]], go.Figure]] = {
    "calibrate": calibration_figure,
    "converge": lambda content: replay_figure({content["name"]: content}),
}
