"""Fit the compute constants to public tables of training steps.

Writes ``dpsim/workload/compute_law.yaml`` with standard errors, the constants of the same fit
without each publisher (``validate/published/left_out.json``, by which ``dpsim validate reference``
predicts rows of the fit), and the residuals of held-out rows
(``dpsim/engine/step_residuals.json``). The exposed communication of a row depends slightly on the
constants: the fit is made twice. Run ``python -m tools.refits.compute_refit`` after a change of
models, of the law, of the network's models or of the tables; with names of constants that are new,
all others stay as they are.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

import dpsim.workload
import validate.published
from dpsim.base.arrays import FloatArray
from dpsim.base.errors import DpsimError
from dpsim.base.terminal import narrate, write_whole
from dpsim.engine import KeptJobs, compute_family, mean_step, prepared_by, updated_part
from dpsim.scenario import Scenario
from dpsim.workload import PARTS, constants_file, forget_constants
from tools.refits.compute_fit import (
    Fit,
    PublishedWork,
    Values,
    assumed_values,
    fit,
    predict,
    priors,
)
from tools.refits.compute_work import RowWork
from tools.refits.residual_quantiles import spread_of
from tools.refits.yaml_files import rounded, yaml_text
from validate.published import STEP_TABLES
from validate.published.tables.csv_file import NotPredictedError
from validate.published.tables.packaged import packaged_rows
from validate.published.tables.published_step import PublishedStep, StepKind
from validate.published.tables.scenario_files import ScenarioFolder

CONSTANTS = Path(dpsim.workload.__path__[0]) / "compute_law.yaml"
LEFT_OUT = Path(validate.published.__path__[0]) / "left_out.json"
RESIDUALS = Path(str(files("dpsim.engine"))) / "step_residuals.json"
HEADER = (
    "# Written by `python -m tools.refits.compute_refit`: what it is, "
    "dpsim/workload/compute_constants.py.\n"
    "# SI units; error: relative standard error of the fit, with its priors.\n"
)
_ROUNDS = 2
_MIXED_KINDS = ("single-gpu", "steps")  # their rows are of all kinds of software
_REFIT_EVALUATIONS = 6  # by a fit that starts from the fit of all rows
_FEWEST_ROWS = 5  # groups with fewer rows are left out together
_WORDS = (
    "software", "memory_format", "execution", "optimizer_kernels", "kernels", "input",
    "gradient_statistics",
)  # fmt: skip
FITTED_ON: tuple[StepKind, ...] = ("single-gpu", "steps", "mlperf", "llm")


def published_steps(kind: StepKind) -> Iterator[PublishedStep]:
    """Yield the rows of a public table that count, as scenarios by the shipped constants."""
    rows = packaged_rows(STEP_TABLES[kind].fitted or "")
    read = STEP_TABLES[kind].reader(rows)
    with TemporaryDirectory() as made:
        folder = ScenarioFolder(Path(made), keeps=False)
        for row in rows:
            try:
                step = folder.fitting(read(row))
            except NotPredictedError:
                continue
            if step.status == "counted":
                yield step


def works(kind: StepKind, steps: Sequence[PublishedStep]) -> list[PublishedWork]:
    """Return the work of rows on their GPUs and networks, by the shipped constants."""
    rows, kept, group_of = [], KeptJobs(), STEP_TABLES[kind].group
    assert group_of is not None
    with TemporaryDirectory() as made, prepared_by(kept.prepare):
        folder = ScenarioFolder(Path(made), keeps=False)
        for step in steps:
            try:
                scenario = folder.scenario(step)
                plain = folder.scenario(step, _without_words(step.scenario))
                model, gpu = kept.prepare(scenario).model, scenario.cluster.accelerator
                rows.append(
                    PublishedWork(
                        _work(kept, scenario),
                        step.measured,
                        group_of(step.row),
                        step.row.text("model"),
                        kind,
                        compute_family(model, scenario.workload),
                        _work(kept, plain),
                        compute_family(model, plain.workload),
                        (model.name, gpu.name, gpu.architecture),
                    )
                )
            except DpsimError:
                continue
    return rows


def _work(kept: KeptJobs, scenario: Scenario) -> RowWork:
    job = kept.prepare(scenario.model_copy(update={"calibration": "catalogue"}))
    return RowWork.of(job, mean_step(job), updated_part(job))


def _without_words(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario without its fields on software."""
    workload = {name: value for name, value in content["workload"].items() if name not in _WORDS}
    return {**content, "workload": workload}


def content(values: Values, spreads: Values, errors: Mapping[str, Any]) -> dict[str, Any]:
    """Return the contents of the file: every constant with its value, error, unit and meaning."""
    shown: dict[str, Any] = {}
    for part in PARTS:
        shown[part] = {}
        for member, table in priors()["parts"][part].items():
            shown[part][member] = {}
            for name, entry in table.items():
                constant = {"value": rounded(values[part][member][name], 4)}
                error = spreads.get(part, {}).get(member, {}).get(name)
                if error is not None:
                    constant["error"] = rounded(error, 2)
                described = {key: entry[key] for key in ("unit", "meaning")}
                shown[part][member][name] = {**constant, **described}
    return {**shown, "extrapolated": priors()["extrapolated"], "errors": dict(errors)}


def without_each(
    rows: Sequence[PublishedWork], whole: Fit, only: Collection[str] = ()
) -> dict[str, Values]:
    """Return the constants without each group of rows, or without all small groups together."""
    count = Counter(row.group for row in rows)
    rare = [name for name in count if count[name] < _FEWEST_ROWS]
    small = {kind: [name for name in rare if name.startswith(f"{kind} ")] for kind in FITTED_ON}
    without: dict[str, Values] = {}
    before = json.loads(LEFT_OUT.read_text(encoding="utf-8")) if only else {}
    sets: list[list[str]] = [[name] for name in count if count[name] >= _FEWEST_ROWS]
    for names in [*sets, *small.values()]:
        if names:
            kept = [row for row in rows if row.group not in names]
            held = _over(assumed_values(), before.get(names[0], whole.values)) if only else None
            values = _round_all(fit(kept, whole, _REFIT_EVALUATIONS, held, only).values)
            without |= dict.fromkeys(names, values)
            narrate(f"without {', '.join(names)[:90]}")
    return without


def blind(rows: Sequence[PublishedWork], without: Mapping[str, Values]) -> FloatArray:
    """Return the seconds of each row by constants that were fitted without its group."""
    seconds = np.zeros(len(rows))
    for group in sorted({row.group for row in rows}):
        at = [index for index, row in enumerate(rows) if row.group == group]
        seconds[at] = predict([rows[index] for index in at], without[group])
    return seconds


def without_generations(rows: Sequence[PublishedWork], values: Values) -> FloatArray:
    """Return the seconds of each row by constants fitted without GPUs of its generation.

    Another generation stands in: the previous one, or Ampere.
    """
    stand = {"hopper": "ampere", "blackwell": "hopper", "ada": "ampere", "turing": "volta"}
    seconds = np.zeros(len(rows))
    for generation in sorted({row.work.members["generations"] for row in rows}):
        at = [i for i, row in enumerate(rows) if row.work.members["generations"] == generation]
        other = stand.get(generation, "volta" if generation == "ampere" else "ampere")
        others = dict(values)
        for part in ("generations", "cores"):
            others[part] = {**values[part], generation: values[part].get(other, {})}
        seconds[at] = predict([rows[index] for index in at], others)
    return seconds


def errors_of(seconds: FloatArray, rows: Sequence[PublishedWork]) -> dict[str, float]:
    """Return the absolute percentage errors, as fractions."""
    ape = np.abs(seconds / np.array([row.measured for row in rows]) - 1)
    found = {"median": np.median(ape), "mean": ape.mean(), "p95": np.percentile(ape, 95)}
    return {"n": len(rows)} | {name: rounded(float(value), 3) for name, value in found.items()}


def by_kind(seconds: FloatArray, rows: Sequence[PublishedWork]) -> dict[str, dict[str, float]]:
    """Return the errors over all rows, and over each table's rows."""
    statistics = {"all": errors_of(seconds, rows)}
    for kind in FITTED_ON:
        at = [index for index, row in enumerate(rows) if row.kind == kind]
        statistics[kind] = errors_of(seconds[at], [rows[index] for index in at])
    return statistics


def residuals(
    rows: Sequence[PublishedWork], without: Mapping[str, Values], apart: FloatArray
) -> dict[str, Any]:
    """Return the spread of ln(measured / predicted) of held-out rows, by family."""
    unsaid = [
        replace(row, work=row.plain, family=row.plain_family)
        for row in rows
        if row.kind in _MIXED_KINDS and row.plain_family != row.family
    ]
    every = [*rows, *unsaid]
    measured = np.array([row.measured for row in every])
    unseen = np.log(measured / blind(every, without))
    # Unknown software does not reduce the uncertainty of an unmeasured generation.
    others = np.concatenate([np.log(measured[: len(rows)] / apart), unseen[len(rows) :]])
    families: dict[str, Any] = {}
    for name in sorted({row.family for row in every}):
        at = [index for index, row in enumerate(every) if row.family == name]
        names = [f"{every[index].group} {every[index].model}" for index in at]
        left_out = spread_of(unseen[at], names, even=True)
        apart_too = spread_of(others[at], names, even=True)
        families[name] = {
            "groups": len({every[index].group for index in at}),
            "group_left_out": left_out,
            "generation_left_out": np.maximum(left_out, apart_too).tolist(),
        }
    return families


def measured_ranges(rows: Sequence[PublishedWork], unseen: FloatArray) -> list[list[Any]]:
    """Return each model on a GPU with its generation, rows, and range of measured times.

    The range is of measured over predicted seconds, for rows held out of the fit.
    """
    ratios_of: dict[tuple[str, str, str], list[float]] = {}
    for row, seconds in zip(rows, unseen, strict=True):
        ratios_of.setdefault(row.trained, []).append(row.measured / seconds)
    return [
        [*key, len(ratios), rounded(min(ratios), 3), rounded(max(ratios), 3)]
        for key, ratios in sorted(ratios_of.items())
    ]


def _round_all(values: Mapping[str, Any]) -> dict[str, Any]:
    return {
        name: _round_all(value) if isinstance(value, Mapping) else rounded(value, 5)
        for name, value in values.items()
    }


def _over(base: Values, values: Mapping[str, Any]) -> Values:
    """Return ``base`` with these values in it."""
    return {
        part: {
            member: {**table, **values.get(part, {}).get(member, {})}
            for member, table in members.items()
        }
        for part, members in base.items()
    }


def _column(constants: Mapping[str, Any], key: str) -> Values:
    """Return the ``value`` or the ``error`` of each constant of the file that has one."""
    return {
        part: {
            member: {name: entry[key] for name, entry in table.items() if key in entry}
            for member, table in constants[part].items()
        }
        for part in PARTS
    }


def write(only: Collection[str] = ()) -> None:
    """Write the three files; ``only`` these constants are fitted if there are any."""
    # Start from the priors each time, whatever was fitted before.
    result, values, held = None, assumed_values(), None
    old_errors: Values = {part: {name: {} for name in members} for part, members in values.items()}
    if only:
        old_errors = _column(constants_file(), "error")
        # A new constant starts from its prior.
        values = held = _over(values, _column(constants_file(), "value"))
    spreads = old_errors
    for _ in range(_ROUNDS):
        write_whole(CONSTANTS, yaml_text(HEADER, content(values, spreads, {})))
        forget_constants()
        rows = [row for kind in FITTED_ON for row in works(kind, [*published_steps(kind)])]
        narrate(f"{len(rows)} rows")
        result = fit(rows, result, held=held, only=only)
        values = result.values
        spreads = _over(old_errors, result.errors)
    assert result is not None
    without = without_each(rows, result, only)
    unseen = blind(rows, without)
    errors = {
        "each publisher left out": by_kind(unseen, rows),
        "fitted rows": by_kind(predict(rows, result.values), rows),
    }
    write_whole(CONSTANTS, yaml_text(HEADER, content(values, spreads, errors)))
    LEFT_OUT.write_text(json.dumps(without, indent=1) + "\n", encoding="utf-8")
    families = residuals(rows, without, without_generations(rows, values))
    write_residuals(families, measured_ranges(rows, unseen))


def write_residuals(families: Mapping[str, Any], nearest: Sequence[Any]) -> None:
    """Write both; the part of ``calibrated_residuals`` is kept."""
    kept = json.loads(RESIDUALS.read_text(encoding="utf-8"))
    kept |= {"families": families, "measured": nearest}
    write_table(kept)


def write_table(kept: Mapping[str, Any]) -> None:
    """Write the file of residuals, one measured model per line."""
    rows = ",\n".join(f"  {json.dumps(row)}" for row in kept["measured"])
    others = {name: part for name, part in kept.items() if name != "measured"}
    text = json.dumps(others, indent=1).removesuffix("\n}")
    write_whole(RESIDUALS, f'{text},\n "measured": [\n{rows}\n ]\n}}\n')


if __name__ == "__main__":
    np.seterr(all="raise", under="ignore")
    write(sys.argv[1:])
