"""Whether a global batch is too large or too small for a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from dpsim.convergence.tasks import Task

Verdict = Literal["fine", "too large", "too small"]

# Of the critical batch: ten times the batch would cost less than twice the samples.
_SMALL = 0.1


@dataclass(frozen=True, slots=True)
class BatchCheck:
    """``verdict`` on a global batch, and ``text`` that says why and what to do.

    ``sample_efficiency`` is that of `StepLaw`.
    """

    verdict: Verdict
    text: str
    sample_efficiency: float
    extrapolated: bool


def check_batch(task: Task, batch: float) -> BatchCheck:
    """Judge a global batch.

    Too large: beyond what published runs of the task took to the same quality (training may not
    converge to the target), or beyond the critical batch (more than half of all samples are spent
    for nothing). Too small: below a tenth of the critical batch, where ten times as many GPUs would
    end in nearly a tenth of the steps, and few samples per GPU leave it idle.
    """
    verdict, text = _judged(task, batch)
    low, high = task.constants.batches
    extrapolated = not low <= batch <= high
    if extrapolated:
        text += f"; extrapolated, the runs had {low:,.0f} to {high:,.0f}"
    return BatchCheck(verdict, text, task.law.sample_efficiency(batch), extrapolated)


def _judged(task: Task, batch: float) -> tuple[Verdict, str]:
    law, limit = task.law, task.limit
    about = f"a global batch of {batch:,.0f}"
    critical = f"the critical batch of about {law.critical_batch:,.0f}"
    more = law.samples(batch) / law.least_samples
    # First what may not train at all, then what only wastes.
    if batch > limit.batch:
        return "too large", (
            f"{about} may not converge to {task.target}: published runs reach it up to "
            f"{limit.batch:,.0f} ({limit.source}); {limit.beyond}"
        )
    if batch > law.critical_batch:
        return (
            "too large",
            f"{about} is above {critical}: it needs {more:.1f} times the samples of a small one, "
            "which wastes GPUs",
        )
    if batch < _SMALL * law.critical_batch:
        ratio = law.steps(10 * batch) / law.steps(batch)
        return "too small", (
            f"{about} is far below {critical}, which wastes GPUs: ten times the batch would need "
            f"{ratio:.0%} of the steps, on more GPUs or with fuller ones"
        )
    return "fine", f"{about} needs {more:.2f} times the samples of a small one"
