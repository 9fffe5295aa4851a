"""Steps with a few known runs of their series: dpsim beside plain regressors on the same runs.

`python -m tools.refits.calibrated_comparison` prints the table of ``docs/accuracy.md``: the errors
of dpsim calibrated on the known rows, of the same time per sample as in the most similar of them,
of their nearest neighbours, and of gradient boosting. It takes some ten minutes.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
from tools.refits.calibrated_residuals import planned_sample
from validate.published import compare_steps
from validate.published.tables.known_steps import place_of
from validate.published.tables.packaged import packaged_path
from validate.published.tables.published_step import PublishedStep, StepKind
from validate.published.tables.step_scores import StepRow

TABLES: Sequence[tuple[StepKind, str, int]] = (
    ("adaptdl", "adaptdl_steptime.csv", 4),
    ("adaptdl", "adaptdl_steptime.csv", 8),
    ("adaptdl", "adaptdl_steptime.csv", 16),
    ("vtrain", "vtrain_steptime.csv", 4),
    ("scaling", "scaling.csv", 2),
)
_FAR_NODES = 8  # nodes: four times as many as the plan has measured


class Errors(NamedTuple):
    """Absolute percentage errors (fractions) of rows, by method."""

    dpsim: FloatArray
    same_per_sample: FloatArray
    neighbours: FloatArray
    boosting: FloatArray

    def line(self, rows: str, known: int) -> str:
        """Return a line of the table: the median and the mean of each method."""
        each = [f"{np.median(errors):.1%} / {errors.mean():.1%}" for errors in self]
        return f"| {' | '.join([rows, str(known), str(len(self.dpsim)), *each])} |"


def table_errors(kind: StepKind, name: str, known: int) -> tuple[Errors, Errors]:
    """Return the errors over a table's rows, and over its rows of `_FAR_NODES` nodes or more."""
    with TemporaryDirectory() as folder:
        path = planned_sample(kind, packaged_path(name), Path(folder) / name, known)
        every = compare_steps(path, kind, regime="calibrated", known=known).every
    series: dict[str, tuple[list[StepRow], list[StepRow]]] = defaultdict(lambda: ([], []))
    for row in every:
        if row.status != "apart":
            series[row.step.series][row.status == "counted"].append(row)
    usable = [(fits, counted) for fits, counted in series.values() if fits and counted]
    counted = [row for _, rows in usable for row in rows]
    measured = np.array([row.measured for row in counted])
    predicted = [
        [row.predicted for row in counted],
        [row.naive or np.nan for row in counted],
        [step for fits, rows in usable for step in _neighbours(fits, rows)],
        _predict_by_trees(usable),
    ]
    errors = np.abs(np.array(predicted) / measured - 1)
    far = np.array([place_of(row.step).nodes >= _FAR_NODES for row in counted])
    return Errors(*errors), Errors(*errors[:, far])


def _neighbours(known: Sequence[StepRow], rows: Sequence[StepRow]) -> Iterator[float]:
    """Yield steps (s) of the two nearest known rows' time per sample, weighted by nearness."""
    from sklearn.neighbors import KNeighborsRegressor

    model = KNeighborsRegressor(min(2, len(known)), weights="distance")
    model.fit(_places(known), np.log([row.measured / row.step.work for row in known]))
    for row, log in zip(rows, model.predict(_places(rows)), strict=True):
        yield float(np.exp(log) * row.step.work)


def _predict_by_trees(series: Sequence[tuple[Sequence[StepRow], Sequence[StepRow]]]) -> list[float]:
    """Return steps (s) by trees that learn how series depart from the same time per sample.

    They are fitted to the known rows of all series, each beside the others of its own.
    """
    from sklearn.ensemble import GradientBoostingRegressor

    pairs = [(one, other) for known, _ in series for one in known for other in known]
    learnt = [_pair(one.step, other.step) for one, other in pairs]
    target = [np.log(other.measured / _scale_by_work(one, other)) for one, other in pairs]
    model = GradientBoostingRegressor(random_state=0).fit(np.array(learnt), target)
    predicted = []
    for known, rows in series:
        for row in rows:
            base = min(known, key=lambda other: float(np.abs(_away(other.step, row.step)).sum()))
            away = np.array([_pair(base.step, row.step)])
            predicted.append(float(_scale_by_work(base, row) * np.exp(model.predict(away)[0])))
    return predicted


def _scale_by_work(known: StepRow, row: StepRow) -> float:
    """Return a row's step (s) with the known row's time per sample."""
    return known.measured * row.step.work / known.step.work


def _pair(known: PublishedStep, step: PublishedStep) -> FloatArray:
    return np.concatenate([_place(known), _away(known, step), [np.log2(known.measured)]])


def _away(known: PublishedStep, step: PublishedStep) -> FloatArray:
    return _place(step) - _place(known)


def _places(rows: Sequence[StepRow]) -> FloatArray:
    return np.array([_place(row.step) for row in rows])


def _place(step: PublishedStep) -> FloatArray:
    """Return nodes, GPUs of a node, GPUs and samples of a GPU, in doublings."""
    place = place_of(step)
    return np.log2([place.nodes, place.gpus_per_node, step.gpus, step.work])


def main() -> None:
    """Print the table."""
    names = ("rows", "known", "n", "dpsim", "same per sample", "nearest neighbours", "boosting")
    sys.stdout.write(f"| {' | '.join(names)} |\n|{' --- |' * len(names)}\n")
    for kind, name, known in TABLES:
        every, far = table_errors(kind, name, known)
        sys.stdout.write(f"{every.line(kind, known)}\n")
        if len(far.dpsim):
            sys.stdout.write(f"{far.line(f'&nbsp; on {_FAR_NODES} to 16 nodes', known)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
