"""Jitter and slow workers with real computing: waits that stretch each worker's step.

A worker whose compute time should be f times its time alone, T, waits (f - 1) T before it computes.
Real computing cannot be made shorter: if draws are below 1, everything is first stretched by 1 /
(the smallest draw), in the prediction too.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.engine import Job, slow_downs


@dataclass(frozen=True, slots=True)
class Waits:
    """The seconds that each worker waits in each step.

    Predicted compute times are multiplied by ``stretch``.
    """

    stretch: float
    seconds: tuple[tuple[float, ...], ...]


def waits_of(job: Job) -> Waits:
    """Return the waits in all steps of ``job``, warm-up included.

    Its times must be those measured alone.
    """
    factors = slow_downs(job)
    stretch = 1 / min(float(factors.min()), 1.0)
    # The last position of a worker's kind is the end of its step: its whole compute time.
    alone = job.positions[-1, job.kind_of]
    # Rounding may leave a wait slightly below zero.
    seconds = ((factors * stretch - 1) * alone).clip(min=0.0)
    return Waits(stretch, tuple(map(tuple, seconds.T.tolist())))
