"""The rows of published steps to which the compute constants are fitted, and their work."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dpsim.base.errors import DpsimError
from dpsim.engine import KeptJobs, compute_family, mean_step, prepared_by, updated_part
from dpsim.scenario import Scenario
from tools.refits.compute_fit import PublishedWork
from tools.refits.compute_work import RowWork
from validate.published import STEP_TABLES
from validate.published.tables.columns import packaged_rows
from validate.published.tables.csv_file import NotPredictedError
from validate.published.tables.published_step import PublishedStep, StepKind
from validate.published.tables.scenario_files import ScenarioFolder

_WORDS = ("software", "memory_format", "execution", "optimizer_kernels", "kernels", "input")
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
    found, kept, group_of = [], KeptJobs(), STEP_TABLES[kind].group
    assert group_of is not None
    with TemporaryDirectory() as made, prepared_by(kept.prepare):
        folder = ScenarioFolder(Path(made), keeps=False)
        for step in steps:
            try:
                scenario = folder.scenario(step)
                plain = folder.scenario(step, _without_words(step.scenario))
                model, gpu = kept.prepare(scenario).model, scenario.cluster.accelerator
                found.append(
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
    return found


def _work(kept: KeptJobs, scenario: Scenario) -> RowWork:
    job = kept.prepare(scenario.model_copy(update={"calibration": "catalogue"}))
    return RowWork.of(job, mean_step(job), updated_part(job))


def _without_words(content: Mapping[str, Any]) -> dict[str, Any]:
    """Return a scenario without its fields on software."""
    workload = {name: value for name, value in content["workload"].items() if name not in _WORDS}
    return {**content, "workload": workload}
