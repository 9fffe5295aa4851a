"""Assemble the `Result` of a run from the scenario, the job and its steps."""

from __future__ import annotations

from typing import Any

from dpsim.engine.intervals import cautions, errors_interval, step_errors
from dpsim.engine.job import Job
from dpsim.engine.kernel import Engine
from dpsim.engine.link_loads import StepTraffic
from dpsim.engine.memory import MemoryUse, memory_use
from dpsim.engine.one_time import one_time_costs
from dpsim.engine.result import Result
from dpsim.engine.steps import Steps
from dpsim.engine.to_target import time_to_target
from dpsim.workload import LearnersRow

# The fields of a calibration profile that a result includes.
_PROFILE_FIELDS = {"name", "kind", "formula", "parameters", "residuals"}


def answer(
    job: Job,
    steps: Steps,
    traffic: StepTraffic,
    engine: Engine,
    *,
    step_time: float,
    unsettled: str | None,
    notes: tuple[str, ...],
) -> Result:
    """Return the result of a job whose steps were simulated.

    ``step_time``: the mean step (s). ``unsettled``: why steps are not steady; None if they are.
    ``notes``: how the run was changed to make them steady.
    """
    scenario = job.scenario
    workload, crashes = scenario.workload, scenario.disturbance.crashes
    memory = memory_use(scenario, job.model)
    learners: tuple[LearnersRow, ...] = ()
    if workload.learners_per_gpu > 1 or workload.utilisation:
        from dpsim.engine.learners import learners_by_batch

        learners = learners_by_batch(scenario, memory)
    return Result(
        job=job,
        name=scenario.name,
        workers=job.workers,
        batch_per_worker=workload.samples_per_gpu,
        steps=steps,
        traffic=traffic,
        independent_workers=job.independent_workers,
        engine=engine.name,
        approximation=engine.approximation,
        own_pace=job.own_pace,
        unsettled=unsettled,
        to_target=time_to_target(scenario, step_time),
        calibration=_calibration(job, memory),
        seed=scenario.run.seed,
        memory=memory,
        pipeline=job.input,
        epoch=None
        if workload.dataset is None
        else workload.dataset.epoch(job.workers, workload.samples_per_gpu),
        learners=learners,
        notes=(*memory.model.notes, *notes),
        libraries=tuple(job.setting.libraries),
        software=_software(job, memory),
        goodput=None
        if crashes is None
        else crashes.goodput(job.workers, one_time_costs(job).startup_s, job.workers_of_nodes),
        interval=errors_interval(step_errors(job, steps)),
        cautions=cautions(job),
    )


def _software(job: Job, memory: MemoryUse) -> dict[str, Any] | None:
    """Return the software's settings and which are assumed; None if all times were measured."""
    measured = memory.model.measured
    if measured is not None and measured.optimizer() is not None:
        return None
    workload, words = job.scenario.workload, job.scenario.workload.full_software
    sample = workload.sample_of(memory.model)
    assumed = [*workload.assumed_software]
    assumed += ["cluster"] if job.scenario.cluster.condition is None else []
    return {
        "software": words.tier,
        "memory_format": words.memory_format,
        "execution": words.execution,
        "optimizer_kernels": words.optimizer_kernels,
        "cluster": job.scenario.condition,
        **sample,
        "assumed": [*assumed, *sample["assumed"]],
    }


def _calibration(job: Job, memory: MemoryUse) -> str | dict[str, Any]:
    """Return where the times come from: catalogue, model profile or calibration."""
    compute = "catalogue" if memory.model.measured is None else "profile"
    scaling = job.scenario.scaling
    if scaling is not None:
        # A cell of one GPU means that no model is split.
        omitted = {"cell"} if job.scenario.cell == 1 else set()
        omitted |= set() if getattr(scaling, "known", None) else {"known"}
        fields = scaling.model_dump(exclude=omitted)
        return {**fields, "compute_scale": job.compute_scale}
    profile = job.scenario.profile
    if profile is None:
        return compute
    fields = profile.model_dump(include=_PROFILE_FIELDS)
    return {"compute": compute, **fields, "residuals_of": profile.residuals_of}
