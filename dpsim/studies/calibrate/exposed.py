"""Exposed communication of a run: its step time beyond computing without communication."""

from __future__ import annotations

from dpsim.engine import Job, adjusted
from dpsim.hardware import StepConstants


def exposed_seconds(job: Job, constants: StepConstants, step: float) -> float:
    """Return the exposed communication (s) of ``job``, whose step takes ``step`` s.

    The slowdown of computing beside communication counts too.
    """
    alone = adjusted(job, constants.model_copy(update={"overlap": 1.0}))
    return step - max(times.step for times in alone.times)
