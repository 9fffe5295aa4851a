"""The tasks with known steps to a target.

tasks.yaml describes them; constants.yaml holds the constants fitted to their runs.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Literal, NamedTuple

import numpy as np
from pydantic import Field, PositiveFloat, PositiveInt

from dpsim.base.config import Config
from dpsim.base.registry import Registry
from dpsim.base.shipped import shipped_yaml
from dpsim.convergence.law import StepLaw, steps_from_noise

Rule = Literal["linear", "square-root"]


class Fitted(Config):
    """A fitted constant."""

    value: PositiveFloat = Field(description="Batch size in samples.")
    error: float = Field(
        ge=0, description="Standard deviation of its logarithm; 0.1 is about 10 %."
    )


class LeftOut(Config):
    """Errors of runs predicted by a law fitted without their batch, as fractions."""

    runs: PositiveInt
    median: float = Field(ge=0)
    worst: float = Field(ge=0)


class NoiseForm(Config):
    """The gradient-noise form of a task.

    Progress to the target, and the gradients' noise scale in each period until then.
    """

    base_batch: PositiveFloat = Field(
        description="The batch whose steps measure progress, in samples."
    )
    progress: PositiveFloat = Field(description="Steps with the base batch to the target.")
    period: PositiveFloat = Field(
        description="Progress of each period, in steps of the base batch."
    )
    noise_scales: tuple[PositiveFloat, ...] = Field(
        min_length=1,
        description="Critical batch in each period, in samples; the last one continues.",
    )

    def steps(self, batch: float) -> float:
        """Return the steps to the target with a global ``batch`` (see `steps_from_noise`)."""
        # The progress at which each period ends.
        ends = self.period * np.arange(1.0, len(self.noise_scales) + 1)
        return steps_from_noise(
            ends, np.array(self.noise_scales), self.progress, batch, self.base_batch
        )


class Constants(Config):
    """The constants fitted to the runs of one task (see `StepLaw`)."""

    least_samples: Fitted = Field(description="Samples to the target with the smallest batch.")
    critical_batch: Fitted = Field(description="Batch that needs twice as many samples.")
    correlation: float = Field(
        ge=-1, le=1, description="Correlation between the errors of the two."
    )
    noise: float = Field(
        ge=0, description="Standard deviation of ln(steps) of one run about the law."
    )
    noise_scale: PositiveFloat | None = Field(
        default=None,
        description=(
            "The gradients' noise scale, in samples: median over the runs up to the target."
        ),
    )
    noise_form: NoiseForm | None = Field(
        default=None, description="Gradient noise that the runs logged, if they did."
    )
    batches: tuple[PositiveFloat, PositiveFloat] = Field(
        description="The smallest and the largest batch of the runs."
    )
    left_out: LeftOut = Field(description="Error on held-out batches.")
    left_out_by_noise: LeftOut | None = Field(
        default=None, description="Error of the gradient-noise form on held-out batches."
    )


class Limit(Config):
    """The largest batch with which published runs reached the same quality."""

    batch: PositiveFloat = Field(description="Largest global batch known to work, in samples.")
    beyond: str = Field(description="Observation beyond that batch.")
    source: str = Field(description="Source of the observation.")


class StepsToTarget(NamedTuple):
    """The steps to a task's target at one global batch.

    ``best``: by the form that predicts left-out batches better. ``by_noise``: by the gradient-noise
    form, None if the noise is unknown. ``log_error``: standard deviation of ln(steps).
    """

    best: float
    by_noise: float | None
    log_error: float


class Task(Config):
    """A model trained on a data set to a target."""

    name: str = Field(description="Name of the task.")
    models: tuple[str, ...] = Field(
        min_length=1, description="Catalogue names of the task's models."
    )
    dataset: str = Field(description="Training data.")
    samples: PositiveInt | None = Field(default=None, description="Samples in an epoch, if known.")
    target: str = Field(description="Quality at which training ends.")
    method: str = Field(description="The optimiser and the rule of its learning rate.")
    optimizers: tuple[str, ...] = Field(description="Workload optimisers that the task applies to.")
    rule: Rule = Field(description="How the learning rate follows the batch.")
    limit: Limit = Field(description="Largest batch known to work.")
    source: str = Field(description="Source of the runs.")
    constants: Constants = Field(description="Constants fitted to the runs.")

    @property
    def law(self) -> StepLaw:
        """The law that gives the steps to the target for each batch."""
        constants = self.constants
        return StepLaw(
            constants.least_samples.value,
            constants.critical_batch.value,
            constants.least_samples.error,
            constants.critical_batch.error,
            constants.correlation,
            constants.noise,
        )

    def steps(self, batch: float) -> StepsToTarget:
        """Return the steps to the target with a global batch of ``batch`` samples.

        Raises DpsimError for a batch that is not above 0.
        """
        law, form = self.law, self.constants.noise_form
        by_noise = None if form is None else form.steps(batch)
        by_law, log_error = law.steps(batch), law.log_error(batch)
        errors = self.constants.left_out_by_noise
        noise_is_better = errors is not None and errors.median < self.constants.left_out.median
        best = by_noise if noise_is_better and by_noise is not None else by_law
        return StepsToTarget(best, by_noise, log_error)


@cache
def tasks() -> Registry[Task]:
    """Return all tasks by name."""
    # One file is written by hand, the other by the fit.
    here = files("dpsim.convergence")
    constants = shipped_yaml(here / "constants.yaml")["tasks"]
    described = shipped_yaml(here / "tasks.yaml")
    known = {
        name: Task(name=name, **entry, constants=constants[name])
        for name, entry in described.items()
    }
    return Registry("task", known)


@cache
def _tasks_by_model() -> dict[str, list[Task]]:
    """Return the tasks of each model that has any, in their order."""
    found: dict[str, list[Task]] = {}
    for task in tasks().values():
        for model in task.models:
            found.setdefault(model, []).append(task)
    return found


def tasks_of(model: str) -> tuple[Task, ...]:
    """Return the tasks of ``model`` (a name in the catalogue)."""
    return tuple(_tasks_by_model().get(model, ()))


def task_for(model: str, optimizer: str) -> Task | None:
    """Return the task of ``model`` (a name in the catalogue) that was trained with ``optimizer``.

    Otherwise return the model's first task, whose steps are for another optimiser, or None if the
    model has no task.
    """
    found = tasks_of(model)
    return next((task for task in found if optimizer in task.optimizers), next(iter(found), None))
