"""Jitter and slow workers beside real computing: waits that stretch each worker's step.

A worker whose computing is to take f times its seconds alone, T, waits (f - 1) T before it
computes. Real computing cannot be made shorter: where draws are below 1, everything is stretched by
1 / (the smallest draw) first, in the prediction too.
"""

from __future__ import annotations

from dataclasses import dataclass

from dpsim.engine import Job, slow_downs


@dataclass(frozen=True, slots=True)
class Waits:
    """The seconds that each worker waits in each step.

    All computing counts as ``stretch`` times as long as it takes.
    """

    stretch: float
    seconds: tuple[tuple[float, ...], ...]


def waits_of(job: Job) -> Waits:
    """The waits in all steps of ``job``, warm-up included.

    Its times must be those of the computing alone.
    """
    factors = slow_downs(job)
    stretch = 1 / min(float(factors.min()), 1.0)
    # The last position of a worker's kind is where its step ends: all that it computes.
    alone = job.positions[-1, job.kind_of]
    # Rounding may leave a wait just below nothing.
    seconds = ((factors * stretch - 1) * alone).clip(min=0.0)
    return Waits(stretch, tuple(map(tuple, seconds.T.tolist())))
