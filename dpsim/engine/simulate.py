"""Scenario in, result out."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import fields
from datetime import UTC, datetime
from importlib.metadata import version
from typing import Any

import numpy as np

from dpsim.disturbance import factors
from dpsim.engine.job import Job, learners_by_batch, prepare
from dpsim.engine.memory import memory_use
from dpsim.engine.result import Bytes, Result
from dpsim.engine.together import Steps, run_together
from dpsim.errors import DpsimError
from dpsim.scenario import MeasuredStep, Scenario
from dpsim.workload import Epoch

_LEAST_SCALE, _MOST_SCALE = 1e-6, 1e6


def simulate(scenario: Scenario, progress: Callable[[int], None] = lambda done: None) -> Result:
    """Predict ``scenario``. ``progress`` is called with the number of steps simulated so far.

    Raises DpsimError where the scenario asks for what cannot be had, such as a precision that the GPU lacks, or more memory than
    it has.
    """
    memory = memory_use(scenario)
    if not scenario.run.allow_out_of_memory:
        memory.check()
    crashes = scenario.disturbance.crashes
    shares = scenario.workload.learners_per_gpu > 1 or bool(scenario.workload.utilisation)
    job = prepare(scenario)
    calibration: str | dict[str, Any] = "catalogue" if memory.model.measured is None else "profile"
    if isinstance(scenario.calibration, MeasuredStep):
        scale = compute_scale(scenario, scenario.calibration)
        job = job.scaled(scale)
        calibration = {**scenario.calibration.model_dump(), "compute_scale": scale}
    steps = _simulated(job, progress)
    return Result(
        name=scenario.name,
        workers=job.workers,
        batch_per_worker=scenario.workload.samples_per_gpu,
        steps=steps,
        traffic=_bytes(job, float(steps.step.mean())),
        calibration=calibration,
        seed=scenario.run.seed,
        provenance=provenance(),
        memory=memory,
        pipeline=job.input,
        epoch=_epoch(scenario),
        learners=learners_by_batch(scenario, memory) if shares else (),
        notes=memory.model.notes,
        goodput=None if crashes is None else crashes.goodput(job.workers),
    )


def compute_scale(scenario: Scenario, measured: MeasuredStep) -> float:
    """The factor on compute times with which the prediction for ``measured.nodes`` nodes is the measured step time.

    Raises DpsimError when no compute time could make it so: communication alone takes longer than the measured step.
    """
    from scipy.optimize import brentq

    cluster = scenario.cluster.with_nodes(measured.nodes)
    job = prepare(scenario.model_copy(update={"cluster": cluster}))

    def excess(log_scale: float) -> float:
        return float(_simulated(job.scaled(np.exp(log_scale))).step.mean()) - measured.step_time

    low, high = np.log(_LEAST_SCALE), np.log(_MOST_SCALE)
    if excess(low) > 0:
        raise DpsimError(
            f"calibration.step_time must be longer than communication alone ({excess(low) + measured.step_time:.4g} s "
            f"on {measured.nodes} nodes), but got {measured.step_time:.4g} s"
        )
    return float(np.exp(brentq(excess, low, high, xtol=1e-9, rtol=1e-9)))


def _simulated(job: Job, progress: Callable[[int], None] = lambda done: None) -> Steps:
    """The steps that count, without the warm-up."""
    run, disturbance = job.scenario.run, job.scenario.disturbance
    slowed = factors(
        job.workers,
        run.warmup + run.steps,
        run.seed,
        np.bincount(job.cluster.node_of).tolist(),
        jitter=disturbance.jitter,
        slow=disturbance.slow,
        transient=disturbance.transient,
    )
    records = run_together(job, slowed, progress)
    return Steps(**{field.name: getattr(records, field.name)[run.warmup :] for field in fields(records)})


def _bytes(job: Job, step_time: float) -> Bytes:
    """What one step sends, and how busy the busiest link is over a step."""
    sent = np.zeros(job.workers, dtype=np.int64)
    loads = np.zeros(len(job.cluster.capacities))
    used = set()
    for model, nbytes in ((job.collectives[message.collective], size) for message in job.messages for size in message.stages):
        sent += model.traffic(nbytes).sent
        loads += model.finish(np.zeros(job.workers), nbytes).loads
        used.add(model.algorithm_for(nbytes))
    if not sent.any():
        return Bytes(0, 0, None, 0.0)
    utilisation = loads / (job.cluster.capacities * step_time)
    busiest = int(utilisation.argmax())
    link = job.cluster.link_name(busiest)
    return Bytes(int(sent.max()), int(sent.sum()), link, float(utilisation[busiest]), tuple(sorted(used)))


def _epoch(scenario: Scenario) -> Epoch | None:
    dataset = scenario.workload.dataset
    return None if dataset is None else dataset.epoch(scenario.cluster.ranks, scenario.workload.samples_per_gpu)


def provenance() -> dict[str, str]:
    """What made a result, and when: the part of its JSON that differs from run to run."""
    return {
        "dpsim": version("dpsim"),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
    }
