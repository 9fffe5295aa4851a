"""Compute times of layers on a scenario's GPUs."""

from __future__ import annotations

from dpsim.hardware import Gpu
from dpsim.scenario import Scenario
from dpsim.workload import (
    Accelerator,
    Constants,
    LayerTimes,
    Model,
    compute_times,
    constants_for,
)


def accelerator(gpu: Gpu) -> Accelerator:
    """Return the figures of ``gpu`` that the compute model uses."""
    peaks: dict[str, float] = {precision: peak.value for precision, peak in gpu.peak.items()}
    power = gpu.power.value if gpu.power else None
    return Accelerator(gpu.name, peaks, gpu.memory_bandwidth.value, gpu.architecture, power)


def learner_times(
    scenario: Scenario,
    model: Model,
    gpu: Gpu,
    batch: int,
    learners: int = 1,
    constants: Constants | None = None,
    updated: float = 1.0,
    recompute: bool = True,
) -> LayerTimes:
    """Return the compute times of a learner on ``gpu`` (s).

    Each pass is over ``batch`` samples and alone on the GPU. ``learners`` update at the same time,
    each the share ``updated`` of the model. Without ``recompute``, the backward pass recomputes
    nothing.
    """
    workload = scenario.workload
    known = constants or constants_on(scenario, model, gpu)
    return compute_times(
        model,
        accelerator(gpu),
        batch=batch,
        precision=workload.precision,
        optimizer=workload.optimizer,
        software=workload.full_software,
        accumulation=workload.gradient_accumulation,
        recompute=workload.recompute if recompute else None,
        constants=known,
        learners=learners,
        updated=updated,
        searched=scenario.strategy.aggregation.searched_nodes(model),
        each_pass=scenario.strategy.aggregation.reduces_each_pass,
        beside=workload.input.host_seconds(known.script, workload.samples_per_gpu, model),
    )


def constants_on(scenario: Scenario, model: Model, gpu: Gpu) -> Constants:
    """Return the constants of computing on ``gpu``: fitted, or measured by the calibration."""
    workload, profile = scenario.workload, scenario.profile
    found = constants_for(model, gpu.architecture, workload.precision, workload.full_software)
    if profile is None or not profile.constants:
        return found
    measured = {name: each.value for name, each in profile.constants.items()}
    return found.measured(measured, workload.precision)
