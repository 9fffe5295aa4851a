"""Rows through dpsim's engine: what each asks for, and how long its step takes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from dpsim.engine import Job, prepare, simulate_steps
from dpsim.scenario import Scenario
from validate.published.llm.fit import Constants
from validate.published.llm.rows import LlmRow
from validate.published.llm.scenarios import scenario_of
from validate.published.llm.work import RowWork


def job_of(scenario: Scenario, constants: Constants | None = None) -> Job:
    """The job of a scenario by ``constants``, those of the package if there are none."""
    if constants is None:
        return prepare(scenario)
    workload = scenario.workload
    gpu = scenario.cluster.accelerator
    return prepare(
        scenario, constants.efficiency(gpu.architecture, workload.execution, workload.kernels)
    )


def step_of(job: Job) -> float:
    """Mean seconds of the steps that count."""
    steps = simulate_steps(job).after(job.scenario.run.warmup)
    return float(steps.step.mean())


def works_of(
    rows: Sequence[LlmRow],
    constants: Constants | None = None,
    progress: Callable[[int], None] = lambda done: None,
) -> list[RowWork]:
    """What the rows ask of their GPUs and networks, as the engine has it by ``constants``."""
    found = []
    with TemporaryDirectory() as folder:
        for done, row in enumerate(rows, 1):
            job = job_of(scenario_of(row, Path(folder)), constants)
            found.append(RowWork.of(job, step_of(job)))
            progress(done)
    return found
