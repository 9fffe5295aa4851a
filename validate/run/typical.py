"""Merges several repetitions of the same steps: for each step, the one with the median time.

The steps of a scenario are the same in every repetition, as seeds are; the differences come from
the machine. So a step delayed by something else on the machine is left out, and steps that
communicate more than others are kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from dpsim.engine import Steps


def typical(repetitions: Sequence[Steps], *, alone: bool) -> Steps:
    """Return, for each step, the repetition with the median time (the lower of two in the middle).

    It is chosen for all workers at once, or if they act ``alone`` for each worker. Only steps that
    all repetitions have count.
    """
    whole = min(len(each.compute) for each in repetitions)
    totals = np.stack([each.step[:whole] for each in repetitions])
    if not alone:
        totals = np.broadcast_to(totals.mean(axis=2, keepdims=True), totals.shape)
    # From (repetitions, steps, workers) to the number of a repetition, (steps, workers).
    middle = np.argsort(totals, axis=0, kind="stable")[(len(repetitions) - 1) // 2]

    def chosen(name: str) -> Any:
        stacked = np.stack([getattr(each, name)[:whole] for each in repetitions])
        return np.take_along_axis(stacked, middle[None], axis=0)[0]

    return Steps(**{field.name: chosen(field.name) for field in fields(Steps)})
