"""Residuals of steps where some runs of their series are known, and on ordinary clusters.

The variance of a prediction's logarithm grows from the nearest known run with each doubling of
nodes, of GPUs per node and of the batch, and where step constants were fitted with what the known
runs leave of each other: variances of independent errors add up. The rates maximise the likelihood
under a Student's t of three degrees, which is robust to outliers, times a factor for which nine in
ten rows lie inside. Writes ``calibrated`` of ``dpsim/engine/step_residuals.json``;
``python -m tools.refits.calibrated_residuals`` takes minutes.
"""

from __future__ import annotations

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.engine import left_out_error, residual_prior, variance_away
from dpsim.hardware import KnownRun, load_profile
from dpsim.scenario import Scenario, load
from tools.refits.compute_refit import RESIDUALS, write_table
from tools.refits.residual_quantiles import spread_of
from validate.published import STEP_TABLES, compare_steps
from validate.published.tables.csv_file import NotPredictedError, read_rows
from validate.published.tables.known_steps import place_of, planned_rows
from validate.published.tables.packaged import packaged_path
from validate.published.tables.published_step import StepKind
from validate.published.tables.scenario_files import file_name
from validate.published.tables.step_scores import StepRow

# By the quantity that the calibration fits: tables, and the number of known rows of a series.
TABLES: dict[str, Sequence[tuple[StepKind, str, int]]] = {
    "compute scaled": [
        ("mlperf", "mlperf_training.csv", 1),
        ("steps", "steps_2.csv", 1),
        ("llm", "llm_fsdp.csv", 1),
    ],
    "step constants": [
        ("adaptdl", "adaptdl_steptime.csv", 4),
        ("adaptdl", "adaptdl_steptime.csv", 8),
        ("vtrain", "vtrain_steptime.csv", 4),
        ("scaling", "scaling.csv", 2),
    ],
}
ORDINARY: Sequence[tuple[StepKind, str]] = [
    ("adaptdl", "adaptdl_steptime.csv"),
    ("scaling", "scaling.csv"),
]
_MOST_OTHER_ROWS = 30
_PLANNED_RUNS = 4  # runs of a series that `dpsim calibrate --plan` proposes
_START = {"compute scaled": (0.03, 0.1, 0.05, 0.1), "step constants": (0.03, 0.1, 0.05, 0.1, 0.5)}
_NORMAL = 1.645  # standard deviations that contain nine in ten
_LEAST_DEVIATION = 0.01  # of a step that is measured again, and of a doubling


class Away(NamedTuple):
    """A row: doublings from each known run of its series (runs, 3), and ln(measured/predicted).

    ``left_out`` is the known runs' leave-one-out error; 0 if no constants were fitted.
    """

    doublings: FloatArray
    residual: float
    series: str
    left_out: float


def rows_away(kind: StepKind, name: str, known: int) -> Iterator[Away]:
    """Yield the rows of a table that count, each with the known ones of its series."""
    with TemporaryDirectory() as made:
        path, folder = packaged_path(name), Path(made)
        if STEP_TABLES[kind].plans:
            path = planned_sample(kind, path, folder / name, known)
        every = compare_steps(
            path, kind, regime="calibrated", known=known, write_scenarios=folder
        ).every
        left_out = {row.step.series: _left_out(row, folder) for row in every}
    places: dict[str, list[KnownRun]] = defaultdict(list)
    for row in every:
        if row.status == "fitted on":
            places[row.step.series].append(place_of(row.step))
    for row in every:
        if row.status == "counted" and row.step.series in places:
            here, runs = place_of(row.step), places[row.step.series]
            doublings = np.array([here.doublings_from(run) for run in runs])
            series = row.step.series
            yield Away(doublings, _residual(row), f"{kind} {series}", left_out[series])


def _left_out(row: StepRow, folder: Path) -> float:
    """Return the leave-one-out error of the known runs of a row's series."""
    profile = folder / f"{file_name(f'steps of {row.step.series}')}.json"
    if not profile.exists():
        return 0.0
    prior = residual_prior(load(folder / f"{file_name(row.step.row_id)}.yaml", Scenario))
    return left_out_error(load_profile(profile).known, prior)


def planned_sample(kind: StepKind, table: Path, path: Path, known: int) -> Path:
    """Write each series' known rows, and at most `_MOST_OTHER_ROWS` random others, to ``path``."""
    rows = read_rows(table, STEP_TABLES[kind].required)
    read, series = STEP_TABLES[kind].reader(rows), defaultdict(list)
    for row in rows:
        with suppress(NotPredictedError):
            step = read(row)
            series[step.series].append(step)
    chance, kept = np.random.default_rng(0), set()
    for steps in series.values():
        drawn = chance.choice(len(steps), min(_MOST_OTHER_ROWS, len(steps)), replace=False)
        others = [steps[at] for at in drawn]
        kept |= {step.row.line for step in [*planned_rows(steps, known), *others]}
    lines = table.read_text(encoding="utf-8").splitlines(keepends=True)
    path.write_text("".join(line for at, line in enumerate(lines, 1) if at == 1 or at in kept))
    return path


def _residual(row: StepRow) -> float:
    return float(np.log(row.measured / row.predicted))


def deviations(rows: Sequence[Away], rates: FloatArray) -> FloatArray:
    """Return rows' standard deviations.

    ``rates`` are that at a known run, per doubling of each kind, and its part of what known runs
    leave of each other if there is a fifth.
    """
    least, by, of_left_out = rates[0], rates[1:4], float(rates[4:].sum())
    away = [float(variance_away(row.doublings, by).min()) for row in rows]
    left_out = of_left_out * np.array([row.left_out for row in rows])
    return np.asarray(np.sqrt(least**2 + np.array(away) + left_out**2))


def fitted_rates(rows: Sequence[Away], start: Sequence[float]) -> FloatArray:
    """Return the most likely rates, times a factor for which nine in ten rows lie inside."""
    from scipy.optimize import minimize

    count = Counter(row.series for row in rows)
    weight = np.array([count[row.series] ** -0.5 for row in rows])
    residual = np.array([row.residual for row in rows])

    def cost(logs: FloatArray) -> float:
        spread = deviations(rows, np.maximum(np.exp(logs), _LEAST_DEVIATION))
        return float((weight * (np.log(spread) + 2 * np.log1p((residual / spread) ** 2 / 3))).sum())

    at = minimize(cost, np.log(start), method="Nelder-Mead", options={"maxfev": 5000}).x
    rates = np.maximum(np.exp(at), _LEAST_DEVIATION)
    score = np.abs(residual) / deviations(rows, rates)
    order = np.argsort(score)
    ninth = np.interp(0.9, np.cumsum(weight[order]) / weight.sum(), score[order])
    return np.asarray(rates * ninth / _NORMAL)


def ordinary() -> dict[str, Any]:
    """Return the residuals of steps on ordinary clusters without known runs.

    They are clusters of several GPUs with the software of a research script.
    """
    rows = [
        (_residual(row), f"{kind} {row.step.series or row.step.groups[0]}")
        for kind, name in ORDINARY
        for row in compare_steps(packaged_path(name), kind).every
        if row.status == "counted" and row.step.gpus > 1
        if row.step.scenario["workload"].get("software") == "reference"
    ]
    residual, series = np.array([each for each, _ in rows]), [name for _, name in rows]
    spread = spread_of(residual, series, even=True)
    return {"rows": len(rows), "series": len(set(series)), "spread": spread}


def write() -> None:
    """Fit both kinds of calibrations and write their residuals."""
    kept = json.loads(RESIDUALS.read_text(encoding="utf-8"))
    kept["ordinary"] = ordinary()
    for name, tables in TABLES.items():
        rows = [row for table in tables for row in rows_away(*table)]
        rates = fitted_rates(rows, _START[name])
        names = ("least", "nodes", "gpus_per_node", "batch", "left_out")
        by_name = {each: round(float(rate), 4) for each, rate in zip(names, rates, strict=False)}
        if "left_out" in by_name:
            # With two runs the constants' residuals are small, whatever the cluster.
            planned = [row for row in rows if len(row.doublings) >= _PLANNED_RUNS]
            of_series = {row.series: row.left_out for row in planned}
            by_name["usual_left_out"] = round(float(np.median([*of_series.values()])), 4)
        inside = np.abs([row.residual for row in rows]) < _NORMAL * deviations(rows, rates)
        ape = np.abs(np.expm1([-row.residual for row in rows]))
        sys.stderr.write(f"{name}: {len(rows)} rows, {inside.mean():.1%} inside, ")
        sys.stderr.write(f"median {np.median(ape):.1%}, mean {ape.mean():.1%}\n")
        kept["calibrated"][name] = {
            "rows": len(rows),
            "series": len({row.series for row in rows}),
            **by_name,
        }
    write_table(kept)


if __name__ == "__main__":
    write()
