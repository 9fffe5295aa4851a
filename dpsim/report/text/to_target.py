"""What training to a target takes, as lines for a terminal."""

from __future__ import annotations

from dpsim.engine import TimeToTarget


def to_target_notes(target: TimeToTarget) -> list[str]:
    """Time, steps and cost to the target, the check of the global batch and the learning rate.

    A line each.
    """
    time, low, high = map(_hours, (target.time_s, target.low_s, target.high_s))
    epochs = "" if target.epochs is None else f"{target.epochs:,.1f} epochs, "
    return [
        f"to target   {time} ({low} to {high}) to {target.task.target} on {target.task.dataset}: "
        f"{target.steps:,.0f} steps, "
        f"{epochs}{target.samples:,.3g} samples, {target.gpu_hours:,.3g} GPU hours",
        f"batch       {target.batch.verdict}: {target.batch.text}",
        f"rate        {target.learning_rate.text}",
        *(f"note        {note}" for note in target.notes),
    ]


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:,.3g} h"
