"""How many steps a task takes to its target at a global batch, and its learning rate.

Depends only on `base`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from dpsim.base.lazy import on_demand
from dpsim.convergence.batch_advice import (
    WARM_UP_EPOCHS,
    BatchCheck,
    LearningRateAdvice,
    check_batch,
    learning_rate_advice,
    scaled,
)
from dpsim.convergence.law import StepLaw, gain, noise_scale, steps_from_noise
from dpsim.convergence.tasks import (
    Constants,
    Fitted,
    LeftOut,
    Limit,
    NoiseForm,
    Task,
    task_for,
    tasks,
    tasks_of,
)

if TYPE_CHECKING:
    from dpsim.convergence.fit import fit_law, left_out_errors
else:
    __getattr__, __dir__ = on_demand(__name__, __file__)

__all__ = [
    "WARM_UP_EPOCHS",
    "BatchCheck",
    "Constants",
    "Fitted",
    "LearningRateAdvice",
    "LeftOut",
    "Limit",
    "NoiseForm",
    "StepLaw",
    "Task",
    "check_batch",
    "fit_law",
    "gain",
    "learning_rate_advice",
    "left_out_errors",
    "noise_scale",
    "scaled",
    "steps_from_noise",
    "task_for",
    "tasks",
    "tasks_of",
]
