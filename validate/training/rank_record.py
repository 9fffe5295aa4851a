"""The record of a rank after a run.

Losses, times, final weights, and the order of events at the rank.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from typing import Any

import numpy as np

from dpsim.base.arrays import RealArray

READ, UPDATED = "read", "updated"
"""Kinds of events in methods in which others change the weights that a worker computes on."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event at this rank, ``seconds`` after its run began.

    ``worker``, in its iteration ``clock``, did ``what``. ``version`` is the number of updates of
    the weights here so far, where counted.
    """

    seconds: float
    what: str
    worker: int
    clock: int
    version: int = 0


@dataclass(slots=True, eq=False)
class RankRecord:
    """One rank's record.

    Lists have one entry for each of its iterations; none for a rank that only serves.

    ``parts_s``: seconds of compute, communication and update; overlapped communication counts as
    compute. ``carried``: for each iteration, the buckets that a library sent during it, with the
    seconds from its begin at which each started and ended. ``weights``: the final weights of this
    rank, flat. ``log``: in the order of events here. ``not_run``: why all else is missing, or "".
    """

    method: str
    rank: int
    ranks: int
    losses: list[float] = field(default_factory=list)
    step_s: list[float] = field(default_factory=list)
    parts_s: dict[str, list[float]] = field(default_factory=dict)
    carried: list[list[tuple[int, float, float]]] = field(default_factory=list)
    log: list[Event] = field(default_factory=list)
    weights: RealArray = field(default_factory=lambda: np.zeros(0))
    not_run: str = ""

    def summary(self) -> dict[str, Any]:
        """Return all but the weights, as plain values for JSON."""
        # Not by `asdict`, which would copy the weights first.
        content = {each.name: getattr(self, each.name) for each in fields(self)}
        del content["weights"]
        return {**content, "log": [asdict(event) for event in self.log]}
