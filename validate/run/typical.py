"""Several repetitions of the same steps as one: of each step, the one of the median time.

The steps of a scenario are the same ones in every repetition, since seeds are; what differs is the
machine's doing. A step that something else on the machine held up is so left out, and steps that
communicate more than others stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from typing import Any

import numpy as np

from dpsim.engine import Steps


def typical(repetitions: Sequence[Steps], *, alone: bool) -> Steps:
    """Of each step the repetition with the median time, the lower of the two in the middle.

    It is chosen for all workers at once, or where they act ``alone`` for each worker. Only steps
    that all repetitions have count.
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
