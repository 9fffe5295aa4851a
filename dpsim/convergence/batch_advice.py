"""Advice on a global batch: whether it is too large or too small, and the learning rate to use.

The learning rate follows the batch by one of two rules, which published runs confirm so far:

- linear, with warm-up: eta = eta_0 B / B_0, raised to it from eta_0 over the first epochs (SGD,
  momentum, LARS). Goyal et al. 2017 (arXiv:1706.02677): holds from 256 to 8,192 on ImageNet;
  without the warm-up 8,192 loses 1.2 points, without scaling 18 points.
- square root: eta = eta_0 sqrt(B / B_0) (Adam, LAMB), which keeps the variance of an update that is
  divided by the gradients' size. Krizhevsky 2014 (arXiv:1404.5997); Malladi et al. 2022
  (arXiv:2205.10287); AdaptDL's Adam tasks.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from dpsim.base.errors import DpsimError
from dpsim.convergence.tasks import Rule, Task

Verdict = Literal["fine", "too large", "too small"]

# As a fraction of the critical batch: ten times the batch would cost less than twice the samples.
_SMALL = 0.1


@dataclass(frozen=True, slots=True)
class BatchCheck:
    """A ``verdict`` on a global batch; ``text`` gives the reason and what to do.

    ``sample_efficiency`` is as in `StepLaw`.
    """

    verdict: Verdict
    text: str
    sample_efficiency: float
    extrapolated: bool


def check_batch(task: Task, batch: float) -> BatchCheck:
    """Judge a global batch.

    Too large: above the batches with which published runs reached the same quality (training may
    not converge to the target), or above the critical batch (more than half of the samples are
    wasted). Too small: below a tenth of the critical batch, where ten times the GPUs would need
    nearly a tenth of the steps, and few samples per GPU leave it idle.
    """
    verdict, text = _verdict(task, batch)
    low, high = task.constants.batches
    extrapolated = not low <= batch <= high
    if extrapolated:
        text += f"; extrapolated, the runs had {low:,.0f} to {high:,.0f}"
    return BatchCheck(verdict, text, task.law.sample_efficiency(batch), extrapolated)


def _verdict(task: Task, batch: float) -> tuple[Verdict, str]:
    law, limit = task.law, task.limit
    subject = f"a global batch of {batch:,.0f}"
    critical = f"the critical batch of about {law.critical_batch:,.0f}"
    factor = law.samples(batch) / law.least_samples
    # Check first whether training can converge at all, then whether it wastes samples.
    if batch > limit.batch:
        return "too large", (
            f"{subject} may not converge to {task.target}: published runs reach it up to "
            f"{limit.batch:,.0f} ({limit.source}); {limit.beyond}"
        )
    if batch > law.critical_batch:
        return (
            "too large",
            f"{subject} is above {critical}: it needs {factor:.1f} times the samples of a small "
            "one, which wastes GPUs",
        )
    if batch < _SMALL * law.critical_batch:
        ratio = law.steps(10 * batch) / law.steps(batch)
        return "too small", (
            f"{subject} is far below {critical}, which wastes GPUs: ten times the batch would need "
            f"{ratio:.0%} of the steps, on more GPUs or with fuller ones"
        )
    return "fine", f"{subject} needs {factor:.2f} times the samples of a small one"


WARM_UP_EPOCHS = 5  # Goyal et al. 2017


@dataclass(frozen=True, slots=True)
class LearningRateAdvice:
    """Advice on the learning rate at a global batch.

    ``factor`` multiplies the learning rate that suits ``base_batch``, in a ramp of
    ``warm_up_epochs``. ``holds``: whether published runs reached the same quality at this batch
    with the same rule.
    """

    rule: Rule
    base_batch: float
    factor: float
    warm_up_epochs: int
    holds: bool
    text: str


def scaled(rate: float, base_batch: float, batch: float, rule: Rule) -> float:
    """Return the learning rate for ``batch``, given that ``rate`` suits ``base_batch``.

    Raises DpsimError for numbers not above 0.
    """
    if min(rate, base_batch, batch) <= 0:
        raise DpsimError(
            f"rate and batches must be above 0, but got {rate}, {base_batch} and {batch}"
        )
    ratio = batch / base_batch
    return rate * (ratio if rule == "linear" else math.sqrt(ratio))


def learning_rate_advice(task: Task, batch: float) -> LearningRateAdvice:
    """Return how to scale the learning rate from the smallest measured batch to ``batch``."""
    base = task.constants.batches[0]
    factor = scaled(1.0, base, batch, task.rule)
    warm_up = WARM_UP_EPOCHS if task.rule == "linear" and batch > base else 0
    holds = batch <= task.limit.batch
    advice = [
        f"{task.rule} rule: multiply the learning rate that is right at a batch of {base:,.0f} by "
        f"{factor:.3g}"
    ]
    if warm_up:
        advice.append(f"raised over the first {warm_up} epochs")
    if not holds:
        advice.append(
            f"published runs hold up to {task.limit.batch:,.0f} only: beyond, {task.limit.beyond}"
        )
    text = "; ".join(advice) + f" ({task.limit.source})"
    return LearningRateAdvice(task.rule, base, factor, warm_up, holds, text)
