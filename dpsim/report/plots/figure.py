"""The one figure that shows an answer best: by what printed it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, Field, ValidationError

from dpsim.base.config import first_problem
from dpsim.base.errors import DpsimError
from dpsim.base.lazy import Shown
from dpsim.report.figures.calibration_figure import calibration_figure
from dpsim.report.figures.front_figure import LabelledPoint, front_figure, points_figure
from dpsim.report.figures.jitter_figure import jitter_figure
from dpsim.report.figures.replay_figure import replay_figure
from dpsim.report.pages.page import chief_figure, source_figures
from dpsim.report.pages.result_files import of_sweep, results_in
from dpsim.studies.sweep import Answer, Pareto, Sweep, query
from dpsim.studies.tune import Tuning

if TYPE_CHECKING:
    import plotly.graph_objects as go

T = TypeVar("T", bound=BaseModel)


class _Point(BaseModel):
    time_s: float
    samples: float
    bytes: float
    accuracy: float | None
    loss: float | None


class _Settings(BaseModel):
    model: str
    batch: int
    learning_rate: float
    momentum: float


class _Replayed(BaseModel):
    """What a figure reads of ``dpsim converge --json``."""

    name: str
    workers: int
    seed: int
    target_accuracy: float
    replay: _Settings
    curve: list[_Point]


class _Curve(BaseModel):
    share: list[float]
    measured: list[float]
    drawn: list[float]


class _Series(BaseModel):
    measured: list[float]
    drawn: list[float]


class _Fitted(BaseModel):
    """What a figure reads of ``dpsim fit-jitter --json``."""

    steps: int
    ranks: int
    curve: _Curve
    series: _Series


class _Run(BaseModel):
    nodes: int
    gpus_per_node: int
    batch: int
    measured_ms: float = Field(gt=0)
    predicted_ms: float = Field(gt=0)
    low_ms: float | None
    high_ms: float | None


class _HeldOut(BaseModel):
    rows: list[_Run]


class _Calibrated(BaseModel):
    """What a figure reads of ``dpsim calibrate --json``."""

    rows: list[_Run]
    held_out: _HeldOut


def answer_figure(content: Mapping[str, Any], name: str) -> go.Figure:
    """The figure of what a command prints with ``--json``; ``name`` says where that is from.

    Of several scales of nodes it is throughput, else the parts of a step. Raises DpsimError for
    what no such command printed.
    """
    for kind, figure in _NO_TABLES.items():
        if content.get("kind") == kind:
            return figure(content, name)
    return chief_figure(results_in(content, name))


def figure_of(answer: Shown) -> go.Figure:
    """The figure of an answer in Python; of a sweep that of its folder, of a search its front."""
    if isinstance(answer, Sweep):
        return sweep_figure(answer.folder)
    if isinstance(answer, Tuning):
        return front_figure(answer)
    return answer_figure(answer.to_json(), type(answer).__name__)


def sweep_figure(folder: str | os.PathLike[str]) -> go.Figure:
    """The figure of a sweep's folder: the parts of a step of its fastest points."""
    answered = query(folder)
    source = of_sweep(str(folder), answered.columns, answered.rows)
    # The first alone is drawn: the rest of the generator is never asked for.
    return next(source_figures(source))


def pareto_figure(found: Pareto) -> go.Figure:
    """Two figures of a sweep's points against each other, with the front that no point beats."""
    of_all, of_front = (
        of_sweep("the sweep", answer.columns, answer.rows) for answer in (found.all, found.front)
    )
    return points_figure(
        found.first,
        found.second,
        all_points=_points(found, found.all, of_all.labels),
        front=_points(found, found.front, of_front.labels),
    )


def _points(found: Pareto, answer: Answer, labels: Iterable[str]) -> list[LabelledPoint]:
    """The points that have both figures. Points that failed have no label."""
    rows = [dict(zip(answer.columns, row, strict=True)) for row in answer.rows]
    done = [row for row in rows if row["step_time_s"] is not None]
    return [
        LabelledPoint(row[found.first], row[found.second], label)
        for row, label in zip(done, labels, strict=True)
        if row[found.first] is not None and row[found.second] is not None
    ]


def _curves(content: Mapping[str, Any], name: str) -> go.Figure:
    read = _read(_Replayed, content, name)
    return replay_figure({read.name: content})


def _jitter(content: Mapping[str, Any], name: str) -> go.Figure:
    return jitter_figure(_read(_Fitted, content, name).model_dump())


def _calibration(content: Mapping[str, Any], name: str) -> go.Figure:
    return calibration_figure(_read(_Calibrated, content, name).model_dump())


def _read(model: type[T], content: Mapping[str, Any], name: str) -> T:
    try:
        return model.model_validate(content)
    except ValidationError as error:
        raise DpsimError(
            f"{name}: must be JSON that dpsim {content['kind']} printed, but {first_problem(error)}"
        ) from None


# Answers that pages of results have no table of, and so do not read.
_NO_TABLES: Mapping[str, Callable[[Mapping[str, Any], str], go.Figure]] = {
    "calibrate": _calibration,
    "converge": _curves,
    "fit-jitter": _jitter,
}
