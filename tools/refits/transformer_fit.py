"""Fits the constants of transformers to rows, with priors, and gives them as dpsim has them.

Also the rows that constants are fitted on, and what they ask of their GPUs as the engine has it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.engine import Job, prepare, simulate_steps
from dpsim.scenario import Scenario
from dpsim.workload import standing_for
from tools.refits.block_fit import Block, fit_blocks
from tools.refits.transformer_work import RowWork, Work
from validate.published.llm import (
    SETTINGS,
    Constants,
    fixed_constants,
    is_fused,
    members_of,
    read,
)
from validate.published.tables import (
    NotPredictedError,
    PublishedStep,
    Row,
    ScenarioFolder,
    constants_file,
)

_ENOUGH = 150.0  # rows from which on more rows weigh no more against priors


def fit(rows: Sequence[RowWork], measured: FloatArray) -> Constants:
    """Fits all constants to the measured seconds of the rows' steps."""
    priors = constants_file(SETTINGS)["priors"]
    work = Work.of(rows)
    blocks = list(_blocks(rows, priors))
    fixed = [fixed_constants(standing_for(row.generation)) for row in rows]

    # Each name is one number a row, as the fitted ones are.
    known = {name: np.array([each[name] for each in fixed]) for name in fixed[0]}

    def seconds(values: Mapping[str, FloatArray]) -> FloatArray:
        found = dict(known)
        for block, value in values.items():
            name = block.split(".")[1]
            found[name] = found.get(name, np.ones(len(rows))) * value
        return work.seconds(found)

    noise = float(priors["row_noise"]) * float(np.sqrt(max(len(rows) / _ENOUGH, 1.0)))
    fitted = fit_blocks(blocks, seconds, measured, noise)
    values: dict[str, dict[str, dict[str, float]]] = {}
    errors: dict[str, dict[str, dict[str, float]]] = {}
    for block in blocks:
        part, name = block.name.split(".")
        members = priors["members"][part]
        found = fitted.values[block.name]
        # Of a share the error is that of its logit.
        relative = fitted.spreads[block.name] * ((1 - found) if block.fraction else 1.0)
        for member, value, error in zip(members, found, relative, strict=True):
            values.setdefault(part, {}).setdefault(member, {})[name] = float(value)
            errors.setdefault(part, {}).setdefault(member, {})[name] = float(error)
    return Constants(values, errors)


def _blocks(rows: Sequence[RowWork], priors: Mapping[str, Any]) -> Iterator[Block]:
    """The unknowns, and whose value each row reads."""
    of_rows = [members_of(row.generation, row.execution, row.kernels) for row in rows]
    for part, table in priors["parts"].items():
        members = priors["members"][part]
        which = np.array([members.index(each[part]) for each in of_rows], dtype=np.int64)
        for name, entry in table.items():
            yield Block(
                f"{part}.{name}",
                _for_members(entry["value"], members),
                _for_members(entry["spread"], members),
                which,
                fraction=bool(entry.get("share", False)),
            )


def _for_members(value: Any, members: Sequence[str]) -> FloatArray:
    """One number for all members, or one for each."""
    each = [value[member] if isinstance(value, Mapping) else value for member in members]
    return np.array(each, dtype=float)


def fitted_rows(table: Iterable[Row]) -> list[PublishedStep]:
    """The rows that are simulated, measured, of quality ok, and with flash."""
    found = []
    with TemporaryDirectory() as made:
        folder = ScenarioFolder(Path(made), keeps=False)
        for row in table:
            try:
                step = folder.fitting(read(row))
            except NotPredictedError:
                continue
            if step.status == "counted" and is_fused(step):
                found.append(step)
    return found


def job_of(scenario: Scenario, constants: Constants | None = None) -> Job:
    """The job of a scenario by ``constants``, those of the package if there are none."""
    plain = scenario.model_copy(update={"calibration": "catalogue"})
    if constants is None:
        return prepare(plain)
    workload, gpu = scenario.workload, scenario.cluster.accelerator
    return prepare(
        plain, constants.efficiency(gpu.architecture, workload.execution, workload.kernels)
    )


def step_of(job: Job) -> float:
    """Mean seconds of the steps that count."""
    steps = simulate_steps(job).after(job.scenario.run.warmup)
    return float(steps.step.mean())


def works_of(steps: Sequence[PublishedStep], constants: Constants | None = None) -> list[RowWork]:
    """What the rows ask of their GPUs and networks, as the engine has it by ``constants``."""
    found = []
    with TemporaryDirectory() as made:
        folder = ScenarioFolder(Path(made), keeps=False)
        for step in steps:
            job = job_of(folder.scenario(step), constants)
            found.append(RowWork.of(job, step_of(job)))
    return found
