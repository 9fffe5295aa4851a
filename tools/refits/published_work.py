"""The rows of published steps that constants of computing are fitted to, and their work."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dpsim.base.errors import DpsimError
from dpsim.engine import KeptJobs, mean_step, prepared_by, updated_part
from dpsim.workload import is_common
from tools.refits.compute_fit import PublishedWork
from tools.refits.compute_work import RowWork
from validate.published import STEP_TABLES
from validate.published.tables import (
    NotPredictedError,
    PublishedStep,
    ScenarioFolder,
    StepKind,
    packaged_rows,
)

FITTED_ON: tuple[StepKind, ...] = ("single-gpu", "steps", "mlperf", "llm")


def published_steps(kind: StepKind) -> Iterator[PublishedStep]:
    """The rows of a public table whose error counts, as scenarios by the shipped constants."""
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
    """What rows ask of their GPUs and networks, by the shipped constants."""
    found, kept, group_of = [], KeptJobs(), STEP_TABLES[kind].group
    assert group_of is not None
    with TemporaryDirectory() as made, prepared_by(kept.prepare):
        folder = ScenarioFolder(Path(made), keeps=False)
        for step in steps:
            try:
                scenario = folder.scenario(step)
                job = kept.prepare(scenario.model_copy(update={"calibration": "catalogue"}))
                seconds = mean_step(job)
            except DpsimError:
                continue
            found.append(
                PublishedWork(
                    RowWork.of(job, seconds, updated_part(job)),
                    step.measured,
                    group_of(step.row),
                    step.row.text("model"),
                    kind,
                    is_common(job.model),
                )
            )
    return found
