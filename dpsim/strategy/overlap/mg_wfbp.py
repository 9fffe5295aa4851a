"""MG-WFBP: gradients are merged if waiting for the next one costs less than a start-up.

Merged-gradient wait-free back-propagation. ``greedy`` is the published rule: a call is merged into
the next one when that becomes ready less than alpha after it could start. ``exact`` is a dynamic
programme over all ways to cut the sequence, t(j) = min over i < j of max(t(i), ready(j)) + alpha +
beta bytes(i+1 .. j), which the greedy rule does not always reach. Both are for collectives of alpha
+ beta n s, one at a time. Source: Shi, Chu and Li, "MG-WFBP: Efficient data communication for
distributed synchronous SGD algorithms", INFOCOM 2019.
"""

from __future__ import annotations

from typing import ClassVar, Literal

import numpy as np
from pydantic import Field

from dpsim.strategy.aggregation import Calls, merged
from dpsim.strategy.overlap.plan import Outlook, Overlap


class MgWfbpConfig(Overlap):
    """Gradients are merged if waiting for the next one costs less than a start-up."""

    label: ClassVar[str] = "MG-WFBP"
    needs_times: ClassVar[bool] = True

    kind: Literal["mg-wfbp"] = Field(
        description="Gradients are merged if waiting for the next one costs less than a start-up."
    )
    merge: Literal["greedy", "exact"] = Field(
        default="greedy", description="Merging rule: as published, or the optimum over all merges."
    )

    def plan(self, calls: Calls, outlook: Outlook) -> Calls:
        """Return the merged calls."""
        cut = _greedy if self.merge == "greedy" else _exact
        ends = cut(calls, outlook)
        starts = [0, *ends[:-1]]
        parts = [calls[start:end] for start, end in zip(starts, ends, strict=True)]
        return tuple(merged(f"merged{number}", part) for number, part in enumerate(parts))


def _greedy(calls: Calls, outlook: Outlook) -> list[int]:
    """Return the index of the call after each merged one."""
    cuts: list[int] = []
    free, inside = 0.0, 0
    for number, call in enumerate(calls, 1):
        inside += call.nbytes
        start = max(outlook.ready(call), free)
        last = number == len(calls)
        # Merging saves a start-up, and costs the wait for the next gradient.
        if last or outlook.ready(calls[number]) >= start + outlook.alpha:
            cuts.append(number)
            free, inside = start + outlook.seconds(inside), 0
    return cuts


def _exact(calls: Calls, outlook: Outlook) -> list[int]:
    """Return the cuts with which the last call ends earliest."""
    # ends[j] is t(j) of the module's formula, best[j] the i that gives it; before[j] is the bytes
    # of the first j calls.
    sizes = [call.nbytes for call in calls]
    before = np.concatenate([[0], np.cumsum(sizes)])
    ends = np.zeros(len(calls) + 1)
    best = np.zeros(len(calls) + 1, dtype=int)
    for number, call in enumerate(calls, 1):
        starts = np.maximum(ends[:number], outlook.ready(call))
        nbytes = before[number] - before[:number]
        finish = starts + outlook.alpha + outlook.beta * nbytes
        best[number] = int(finish.argmin())
        ends[number] = finish[best[number]]
    # Backtrack from the last call, by the start of each merged call.
    cuts = [len(calls)]
    while best[cuts[-1]]:
        cuts.append(int(best[cuts[-1]]))
    return cuts[::-1]
