"""Merged-gradient wait-free back-propagation.

Gradients are merged where waiting for the next costs less than a start-up.

``greedy`` is the published rule: an operation is merged into the next one when that becomes ready
less than alpha after it could start. ``exact`` is a dynamic programme over all ways to cut the
sequence, t(j) = min over i < j of max(t(i), ready(j)) + alpha + beta bytes(i+1 .. j), which the
greedy rule does not always reach. Both are for collectives of alpha + beta n s, one at a time.
Source: Shi, Chu and Li, "MG-WFBP: Efficient data communication for distributed synchronous SGD
algorithms", INFOCOM 2019.
"""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from dpsim.strategy.aggregation import Operation, merged
from dpsim.strategy.overlap.plan import Outlook, Overlap


class MgWfbpConfig(Overlap):
    """Gradients are merged where waiting for the next costs less than a start-up."""

    kind: Literal["mg-wfbp"] = Field(
        description="Gradients are merged where waiting for the next costs less than a start-up."
    )
    merge: Literal["greedy", "exact"] = Field(
        default="greedy", description="The published rule, or the best of all merges."
    )

    def plan(self, operations: tuple[Operation, ...], outlook: Outlook) -> tuple[Operation, ...]:
        """The operations, merged."""
        cuts = (_greedy if self.merge == "greedy" else _exact)(operations, outlook)
        parts = [operations[start:end] for start, end in zip([0, *cuts[:-1]], cuts, strict=True)]
        return tuple(merged(f"merged{number}", part) for number, part in enumerate(parts))


def _greedy(operations: tuple[Operation, ...], outlook: Outlook) -> list[int]:
    """Where merged operations end.

    Before which operation each next one starts, the last at the end.
    """
    cuts: list[int] = []
    free, inside = 0.0, 0
    for number, operation in enumerate(operations, 1):
        inside += operation.nbytes
        start = max(outlook.ready(operation), free)
        if number == len(operations) or outlook.ready(operations[number]) >= start + outlook.alpha:
            cuts.append(number)
            free, inside = start + outlook.seconds(inside), 0
    return cuts


def _exact(operations: tuple[Operation, ...], outlook: Outlook) -> list[int]:
    """The cuts with which the last operation ends earliest."""
    before = np.concatenate([[0], np.cumsum([op.nbytes for op in operations])])
    ends = np.zeros(len(operations) + 1)
    best = np.zeros(len(operations) + 1, dtype=int)
    for number, operation in enumerate(operations, 1):
        starts = np.maximum(ends[:number], outlook.ready(operation))
        finish = starts + outlook.alpha + outlook.beta * (before[number] - before[:number])
        best[number] = int(finish.argmin())
        ends[number] = finish[best[number]]
    cuts = [len(operations)]
    while best[cuts[-1]]:
        cuts.append(int(best[cuts[-1]]))
    return cuts[::-1]
