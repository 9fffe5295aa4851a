"""Exposed communication of a run: what its step takes beyond computing with nothing sent."""

from __future__ import annotations

from dpsim.engine import Job, adjusted
from dpsim.hardware import StepConstants


def exposed_seconds(job: Job, constants: StepConstants, step: float) -> float:
    """Exposed communication (s) of ``job``, whose step takes ``step`` s with these constants.

    What computing loses beside communication counts too: with nothing sent it loses nothing.
    """
    alone = adjusted(job, constants.model_copy(update={"overlap": 1.0}))
    return step - max(times.step for times in alone.times)
