"""Step times of a record over factors on its compute times, and the plan that ends first."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpsim.base.arrays import FloatArray
from dpsim.disturbance import compute_factors
from dpsim.engine import Job, prepare, run_together
from dpsim.scenario import Scenario
from validate.published.imagenet.records import Plan, PublishedTraining

LOG_FACTORS = np.log(2.0) * np.arange(-4.0, 4.0)  # 1/16 to 8
_CHOOSING = np.log(0.5)  # records are run by tuned software


@dataclass(frozen=True)
class Curve:
    """ln(seconds of the whole training) of one record by ``plan``.

    One for each of `LOG_FACTORS` on compute times.
    """

    record: PublishedTraining
    plan: Plan
    log_seconds: FloatArray


def curve(record: PublishedTraining) -> Curve:
    """The curve of the plan that ends first."""
    plan = record.plans[0]
    if len(record.plans) > 1:
        # One factor stands for all of them: a curve of each would take eight times as long.
        plan = min(record.plans, key=lambda each: _ends(record, each, np.array([_CHOOSING]))[0])
    return Curve(record, plan, np.log(_ends(record, plan, LOG_FACTORS)))


def _ends(record: PublishedTraining, plan: Plan, log_factors: FloatArray) -> FloatArray:
    """Seconds of the whole training with each factor."""
    return plan.steps * step_seconds(record.scenario(plan), log_factors)


def interpolated(log_seconds: FloatArray, log_factor: FloatArray) -> FloatArray:
    """Ln seconds at each row's own factor.

    Linear between the points, on their last slopes beyond them. Shape (rows,).
    """
    width = float(LOG_FACTORS[1] - LOG_FACTORS[0])
    steps_from_first = ((log_factor - LOG_FACTORS[0]) / width).astype(np.int64)
    left = np.clip(steps_from_first, 0, len(LOG_FACTORS) - 2)
    # (rows, factors): each row is read between the two points around its own factor.
    every = np.arange(len(log_seconds))
    low, high = log_seconds[every, left], log_seconds[every, left + 1]
    return np.asarray(low + (high - low) * (log_factor - LOG_FACTORS[left]) / width)


def step_seconds(scenario: Scenario, log_factors: FloatArray) -> FloatArray:
    """Mean seconds of a step with compute times multiplied by each factor."""
    job, run = prepare(scenario), scenario.run
    nodes = np.bincount(job.cluster.node_of).tolist()
    # One draw of jitter for all factors: the curve is then smooth in them.
    slowed = compute_factors(
        job.workers, run.warmup + run.steps, run.seed, nodes, jitter=scenario.disturbance.jitter
    )
    return np.array(
        [_mean_step(job.scaled(float(np.exp(log_factor))), slowed) for log_factor in log_factors]
    )


def _mean_step(job: Job, slowed: FloatArray) -> float:
    return float(run_together(job, slowed, lambda done: None).step.mean())
