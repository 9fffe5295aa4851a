"""Time and cost to a target accuracy.

Multiplies the steps to the target (`dpsim.convergence`) by the step time, and checks the global
batch.
"""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields
from typing import Any

from dpsim.convergence import (
    BatchCheck,
    LearningRateAdvice,
    Task,
    check_batch,
    learning_rate_advice,
    task_for,
    tasks_of,
)
from dpsim.scenario import Scenario


@dataclass(frozen=True, slots=True)
class Training:
    """Steps, time and cost of training to a target.

    ``low_s`` and ``high_s`` bound ``time_s`` with a probability of 95 %: errors of the fitted
    constants and of single runs, not of the step time. ``gpu_hours`` is the cost: multiply it by a
    price. ``steps_by_noise`` is the estimate of the gradient-noise form beside ``steps``, None if
    no noise is known. ``epochs`` are passes over the task's data set, None if its size is not
    known.
    """

    steps: float
    steps_by_noise: float | None
    samples: float
    epochs: float | None
    time_s: float
    low_s: float
    high_s: float
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class TimeToTarget:
    """Whether and when a scenario reaches ``task``'s target with ``global_batch`` samples per step.

    ``training`` is None if no published run covers it: with another optimiser, or with a larger
    global batch than any that reached the target. ``notes`` say so.
    """

    task: Task
    global_batch: int
    training: Training | None
    batch: BatchCheck
    learning_rate: LearningRateAdvice
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Return the object ``to_target`` of the JSON of ``dpsim run``."""
        taken = {field.name: getattr(self.training, field.name, None) for field in fields(Training)}
        return {
            "task": self.task.name,
            "dataset": self.task.dataset,
            "target": self.task.target,
            "method": self.task.method,
            "global_batch": self.global_batch,
            **taken,
            "batch": asdict(self.batch),
            "learning_rate": asdict(self.learning_rate),
            "left_out_error": self.task.constants.left_out.median,
            "notes": list(self.notes),
        }


def time_to_target(scenario: Scenario, step_time_s: float) -> TimeToTarget | None:
    """Return the training of ``scenario`` to its model's target with steps of ``step_time_s`` s.

    None if no constants are known: the model does not belong to a known task, or workers do not all
    wait for one another (the constants are of synchronous training; stale gradients take more
    steps, how many more is not known).
    """
    model, optimizer = scenario.workload.model, scenario.workload.optimizer
    # Tasks do not know the name of a model from a file or a factory.
    if scenario.strategy.sync.difference or not isinstance(model, str):
        return None
    task = task_for(model, optimizer)
    if task is None:
        return None
    batch = scenario.global_batch
    is_known = optimizer in task.optimizers and batch <= task.limit.batch
    methods = " or ".join(each.method for each in tasks_of(model))
    is_chosen = "optimizer" in scenario.workload.model_fields_set
    default = "" if is_chosen else ", the default of workload.optimizer"
    # How the scenario differs from the runs whose steps were counted.
    notes = {
        f"steps to the target are not known with {optimizer}{default}, only with {methods}": (
            optimizer not in task.optimizers
        ),
        f"steps to the target are not known with a global batch above {task.limit.batch:,.0f}: "
        f"no published run with {task.method} reached it": batch > task.limit.batch,
        "steps to the target are those of dense gradients: compressed ones may take more": (
            is_known and scenario.strategy.compression.takes_more_steps
        ),
        "steps to the target are those of one model: workers that gossip hold models of their "
        "own and may take more": is_known and not scenario.strategy.aggregation.one_version,
    }
    return TimeToTarget(
        task=task,
        global_batch=batch,
        training=_training(task, batch, step_time_s, scenario.cluster.ranks) if is_known else None,
        batch=check_batch(task, batch),
        learning_rate=learning_rate_advice(task, batch),
        notes=tuple(note for note, applies in notes.items() if applies),
    )


def _training(task: Task, batch: int, step_time_s: float, gpus: int) -> Training:
    found = task.steps(batch)
    samples, time_s = found.best * batch, found.best * step_time_s
    # Steps are a product of fitted powers, so their error is a factor, symmetric in both
    # directions.
    reach = math.exp(1.96 * found.log_error)
    return Training(
        steps=found.best,
        steps_by_noise=found.by_noise,
        samples=samples,
        epochs=None if task.samples is None else samples / task.samples,
        time_s=time_s,
        low_s=time_s / reach,
        high_s=time_s * reach,
        gpu_hours=time_s * gpus / 3600,
    )
